package org.apache.spark.sql.execution.headwater.scan

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.BroadcastQueryStageExec
import org.apache.spark.sql.execution.joins.{HashedRelation, HashJoin, LongHashedRelation}

/** The keys of a join's broadcast side, which the driver holds before the tasks of the other side start. */
object BroadcastKeys {
  /**
   * The distinct values of one key, without null; None if the side is not broadcast yet, or has more keys than may be looked at.
   *
   * @param side the broadcast side of the join
   * @param keys all of its keys, over its output
   * @param index which of them
   * @param most how many keys may be looked at
   */
  def of(side: SparkPlan, keys: Seq[Expression], index: Int, most: Int): Option[Seq[Any]] = side match {
    case stage: BroadcastQueryStageExec if stage.isMaterialized =>
      stage.broadcast.executeBroadcast[Any]().value match {
        case relation: HashedRelation => distinct(relation, keys, index, most)
        case _ => None
      }
    case _ => None
  }

  private def distinct(relation: HashedRelation, keys: Seq[Expression], index: Int, most: Int): Option[Seq[Any]] = {
    // Spark packs keys of whole numbers into one LONG.
    val key = relation match {
      case _: LongHashedRelation => HashJoin.extractKeyExprAt(keys, index)
      case _ => BoundReference(index, keys(index).dataType, keys(index).nullable)
    }
    val found = mutable.LinkedHashSet.empty[Any]
    val rows = relation.asReadOnlyCopy().keys()
    var seen = 0
    while (rows.hasNext && seen <= most) {
      val value = key.eval(rows.next())
      if (value != null) found += InternalRow.copyValue(value)
      seen += 1
    }
    Option.when(seen <= most)(found.toSeq)
  }
}
