package headwater.spark.bridge

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import headwater.spark.HeadwaterException
import headwater.spark.bridge.messages.{ExplainFailureRequest, JobCause, TableRead}
import headwater.spark.scan.tables.HeadwaterFileIndex
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

/** A failed job of a statement. The handler, which knows the tables, may explain the failure better than Spark does. */
object JobFailure {
  private val MostFrames = 60

  /** The handler's error for a failure of Spark's; the failure itself if the handler has nothing to add. */
  def explain(context: StatementContext, plans: Seq[LogicalPlan], error: Throwable): Throwable =
    try {
      val request = ExplainFailureRequest(StoreFailure.causes(error).map(describe), tables(plans))
      Bridge.call(context.another, request).map(HeadwaterException.of).getOrElse(error)
    } catch { case NonFatal(_) => error }

  private def describe(error: Throwable): JobCause = {
    val known = Option(error).collect { case known: SparkThrowable => known }
    JobCause(
      `class` = error.getClass.getName,
      message = Option(error.getMessage),
      at = error.getStackTrace.take(MostFrames).map(_.getClassName).toSeq,
      condition = known.flatMap(each => Option(each.getCondition)),
      parameters = known.map(_.getMessageParameters.asScala.view.mapValues(Option(_)).toMap).getOrElse(Map.empty))
  }

  /** The tables that the plans read: `[path, version]` each. */
  private def tables(plans: Seq[LogicalPlan]): Seq[TableRead] = plans.flatMap(_.collectWithSubqueries {
    case LogicalRelation(files: HadoopFsRelation, _, _, _, _) => files.location
  }).collect { case index: HeadwaterFileIndex => TableRead(index.path, index.state.version) }.distinct
}
