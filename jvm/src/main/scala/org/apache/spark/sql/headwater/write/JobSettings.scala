package org.apache.spark.sql.headwater.write

import headwater.spark.bridge.messages.WriteSpecification
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{ExternalRDD, LogicalRDD, SparkPlan}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.columnar.{InMemoryRelation, InMemoryTableScanExec}
import org.apache.spark.sql.execution.datasources.VariantMetadata
import org.apache.spark.sql.headwater.ProducedRows
import org.apache.spark.sql.headwater.bridge.JobProperties
import org.apache.spark.sql.internal.{LegacyBehaviorPolicy, SQLConf}
import org.apache.spark.sql.types.{DataType, StructType, VariantType}

/** Spark settings that one job has and its session has not: the handler chooses them, and says for small jobs which. */
object JobSettings {
  /** The settings of a job that runs `plan`. It is small if it reads little by Spark's estimate, and cannot multiply that to many rows. */
  def of(plan: => LogicalPlan, specification: WriteSpecification): Map[String, String] = {
    val small = specification.smallJob
    // Subqueries run as part of the job, under its settings.
    val leaves = plan.collectWithSubqueries { case leaf: LeafNode => leaf }
    if (leaves.map(_.stats.sizeInBytes).sum > small.bytes || ProducedRows.of(plan) > small.rows.toDouble) specification.settings
    else if (leaves.exists(mayReadVariants)) small.settings - SQLConf.CODEGEN_FACTORY_MODE.key
    else small.settings
  }

  /** Spark's readers extract fields of shredded variants with an expression that only exists as generated code (`ScalarCastHelper`). */
  private def mayReadVariants(leaf: LogicalPlan): Boolean = leaf match {
    case cached: InMemoryRelation => mayReadVariants(cached.cachedPlan)
    case _: LogicalRDD | _: ExternalRDD[_] => true
    case _ => hasVariants(leaf.output)
  }

  /** The same for a plan whose rows are cached: the first job that reads them computes them. */
  private def mayReadVariants(plan: SparkPlan): Boolean = plan match {
    case adaptive: AdaptiveSparkPlanExec => mayReadVariants(adaptive.inputPlan)
    case cached: InMemoryTableScanExec => mayReadVariants(cached.relation)
    case _ if plan.children.isEmpty => hasVariants(plan.output)
    case _ => plan.children.exists(mayReadVariants)
  }

  private def hasVariants(columns: Seq[Attribute]): Boolean = columns.exists(column =>
    (column.dataType: DataType).existsRecursively {
      case _: VariantType => true
      case struct: StructType => VariantMetadata.isVariantStruct(struct)
      case _ => false
    })

  /**
   * Files count days and times by Parquet's calendar even if the session asks for Spark 2's (`LEGACY`): other engines, and the bounds in
   * the log, use no other calendar.
   */
  def calendar(conf: SQLConf): Map[String, String] =
    Seq(SQLConf.PARQUET_REBASE_MODE_IN_WRITE.key, SQLConf.PARQUET_INT96_REBASE_MODE_IN_WRITE.key)
      .filter(conf.getConfString(_).equalsIgnoreCase(LegacyBehaviorPolicy.LEGACY.toString))
      .map(_ -> LegacyBehaviorPolicy.CORRECTED.toString).toMap

  /** Runs `body` with the settings, on the driver and in the tasks of the jobs it starts. */
  def within[T](session: SparkSession, settings: Map[String, String])(body: => T): T = if (settings.isEmpty) body
  else {
    val conf = session.sessionState.conf.clone()
    settings.foreach { case (key, value) => conf.setConfString(key, value) }
    JobProperties.within(session.sparkContext, settings)(SQLConf.withExistingConf(conf)(body))
  }
}
