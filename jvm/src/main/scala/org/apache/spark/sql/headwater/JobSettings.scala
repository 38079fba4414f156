package org.apache.spark.sql.headwater

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.internal.SQLConf

/** Settings of a job that are not those of its session: here, where it is planned, and in its tasks. */
object JobSettings {
  /** Nothing is planned anew as stages end: of use where no stage's end tells anything. */
  private val PlannedAhead = Map(SQLConf.ADAPTIVE_EXECUTION_ENABLED.key -> "false")
  /** Generating and compiling code for some rows takes many times what it saves. */
  private val Small = PlannedAhead ++ Map(
    SQLConf.WHOLESTAGE_CODEGEN_ENABLED.key -> "false",
    SQLConf.CODEGEN_FACTORY_MODE.key -> "NO_CODEGEN",
    SQLConf.SHUFFLE_PARTITIONS.key -> "1")

  /** @param small bytes, by Spark's estimate of what the plan reads, up to which a job is small. */
  def of(plan: => LogicalPlan, small: Long, plannedAhead: Boolean): Map[String, String] =
    if (small > 0 && plan.collectLeaves().map(_.stats.sizeInBytes).sum <= small) Small
    else if (plannedAhead) PlannedAhead
    else Map.empty

  def within[T](session: SparkSession, settings: Map[String, String])(body: => T): T = if (settings.isEmpty) body else {
    val conf = session.sessionState.conf.clone()
    settings.foreach { case (key, value) => conf.setConfString(key, value) }
    LocalProperties.within(session.sparkContext, settings)(SQLConf.withExistingConf(conf)(body))
  }
}
