package org.apache.spark.sql.headwater.write

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{ExternalRDD, LogicalRDD, SparkPlan}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.columnar.{InMemoryRelation, InMemoryTableScanExec}
import org.apache.spark.sql.execution.datasources.VariantMetadata
import org.apache.spark.sql.headwater.bridge.JobProperties
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructType, VariantType}

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
  def of(plan: => LogicalPlan, small: Long, plannedAhead: Boolean): Map[String, String] = {
    // Subqueries run as part of the job, under its settings.
    lazy val leaves = plan.collectWithSubqueries { case leaf: LeafNode => leaf }
    if (small > 0 && leaves.map(_.stats.sizeInBytes).sum <= small) {
      if (leaves.exists(mayReadVariants)) Small - SQLConf.CODEGEN_FACTORY_MODE.key else Small
    } else if (plannedAhead) PlannedAhead
    else Map.empty
  }

  /** Spark's readers take fields out of shredded variants by an expression that exists as generated code only (`ScalarCastHelper`). */
  private def mayReadVariants(leaf: LogicalPlan): Boolean = leaf match {
    case cached: InMemoryRelation => mayReadVariants(cached.cachedPlan)
    case _: LogicalRDD | _: ExternalRDD[_] => true
    case _ => hasVariants(leaf.output)
  }

  /** The same of a plan whose rows are cached: the first job that asks for them computes them. */
  private def mayReadVariants(plan: SparkPlan): Boolean = plan match {
    case adaptive: AdaptiveSparkPlanExec => mayReadVariants(adaptive.inputPlan)
    case cached: InMemoryTableScanExec => mayReadVariants(cached.relation)
    case _ if plan.children.isEmpty => hasVariants(plan.output)
    case _ => plan.children.exists(mayReadVariants)
  }

  private def hasVariants(columns: Seq[Attribute]): Boolean = columns.exists(column => (column.dataType: DataType).existsRecursively {
    case _: VariantType => true
    case struct: StructType => VariantMetadata.isVariantStruct(struct)
    case _ => false
  })

  def within[T](session: SparkSession, settings: Map[String, String])(body: => T): T = if (settings.isEmpty) body else {
    val conf = session.sessionState.conf.clone()
    settings.foreach { case (key, value) => conf.setConfString(key, value) }
    JobProperties.within(session.sparkContext, settings)(SQLConf.withExistingConf(conf)(body))
  }
}
