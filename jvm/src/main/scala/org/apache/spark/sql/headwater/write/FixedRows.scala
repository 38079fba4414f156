package org.apache.spark.sql.headwater.write

import scala.annotation.tailrec

import org.apache.spark.rdd.{EmptyRDD, ParallelCollectionRDD, RDD}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{ExternalRDD, LogicalRDD}

/** Rows that an RDD holds: a plan does not show what they were computed from, and computed again they are the same. */
object FixedRows {
  /** Whether an analyzed plan has such rows, in a subquery perhaps. Rows that came from the driver were not computed from a table. */
  def areIn(plan: LogicalPlan): Boolean = plan.exists {
    case rows: LogicalRDD => hasUnknownOrigin(List(rows.rdd), Set.empty)
    case rows: ExternalRDD[_] => hasUnknownOrigin(List(rows.rdd), Set.empty)
    case other => other.subqueries.exists(areIn)
  }

  @tailrec
  private def hasUnknownOrigin(open: List[RDD[_]], seen: Set[Int]): Boolean = open match {
    case Nil => false
    case rdd :: rest if seen(rdd.id) => hasUnknownOrigin(rest, seen)
    case (_: ParallelCollectionRDD[_] | _: EmptyRDD[_]) :: rest => hasUnknownOrigin(rest, seen)
    case rdd :: _ if rdd.checkpointData.isDefined || rdd.dependencies.isEmpty => true
    case rdd :: rest => hasUnknownOrigin(rdd.dependencies.map(_.rdd).toList ++ rest, seen + rdd.id)
  }
}
