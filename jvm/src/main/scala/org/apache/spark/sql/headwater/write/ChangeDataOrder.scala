package org.apache.spark.sql.headwater.write

import org.apache.spark.sql.catalyst.expressions.{Alias, Ascending, Attribute, BitwiseOr, If, Literal, MonotonicallyIncreasingID, SortOrder}
import org.apache.spark.sql.execution.{ProjectExec, SortExec, SparkPlan}
import org.apache.spark.sql.types.BooleanType

/**
 * Sorts the rows of a job that writes change data by their files, and those of a file as they come: each preimage stays directly before its
 * postimage. The writer's own sort keeps no order among the rows of a file once it spills.
 */
object ChangeDataOrder {
  /** Larger than any value of `monotonically_increasing_id`. */
  private val ChangesLast = 1L << 62

  /**
   * @param columns the plan's columns as the writer knows them
   * @param partitions those of them that decide a row's file; the first says whether it is change data
   */
  def sorted(plan: SparkPlan, columns: Seq[Attribute], partitions: Seq[Attribute]): SparkPlan = {
    val sorted = partitions.map(partition => plan.output(columns.indexWhere(_.exprId == partition.exprId))) match {
      case Seq(isChange) if isChange.dataType == BooleanType =>
        // One number, which Spark sorts without comparing rows.
        val key = Alias(BitwiseOr(If(isChange, Literal(ChangesLast), Literal(0L)), MonotonicallyIncreasingID()), "write_order")()
        SortExec(Seq(SortOrder(key.toAttribute, Ascending)), global = false, ProjectExec(plan.output :+ key, plan))
      case several =>
        val sequence = Alias(MonotonicallyIncreasingID(), "write_order")()
        val order = (several :+ sequence.toAttribute).map(SortOrder(_, Ascending))
        SortExec(order, global = false, ProjectExec(plan.output :+ sequence, plan))
    }
    FileOrderExec(sorted, partitions.map(SortOrder(_, Ascending)))
  }
}
