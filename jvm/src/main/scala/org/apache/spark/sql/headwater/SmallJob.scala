package org.apache.spark.sql.headwater

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.internal.SQLConf

/**
 * Runs jobs over little data as Spark does when told not to generate code, nor to plan as it goes: generating and compiling code for some
 * rows takes many times what it saves.
 */
object SmallJob {
  private val Settings = Map(
    SQLConf.WHOLESTAGE_CODEGEN_ENABLED.key -> "false",
    SQLConf.CODEGEN_FACTORY_MODE.key -> "NO_CODEGEN",
    SQLConf.ADAPTIVE_EXECUTION_ENABLED.key -> "false",
    SQLConf.SHUFFLE_PARTITIONS.key -> "1")

  /** @param limit bytes, by Spark's estimate of what the plan reads; what reads more runs as the session is set. */
  def run[T](session: SparkSession, plan: => LogicalPlan, limit: Long)(body: => T): T =
    if (limit <= 0 || plan.collectLeaves().map(_.stats.sizeInBytes).sum > limit) body
    else JobSettings.within(session, Settings)(body)
}
