package headwater.spark.bridge

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import headwater.spark.HeadwaterException
import headwater.spark.scan.HeadwaterFileIndex
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

/** A failed job of a statement. The handler, which knows the tables, may explain the failure better than Spark does. */
object JobFailure {
  private val MostFrames = 60

  /** The handler's error for a failure of Spark's; the failure itself if the handler has nothing to add. */
  def explain(context: StatementContext, plans: Seq[LogicalPlan], error: Throwable): Throwable =
    try {
      val answer = Bridge.call(new StatementContext(context.session), "explain_failure", "causes" -> StoreFailure.causes(error).map(describe), "tables" -> tables(plans))
      if (answer.isNull) error else HeadwaterException.fromJson(answer)
    } catch { case NonFatal(_) => error }

  private def describe(error: Throwable): Map[String, Any] = Map[String, Any](
    "class" -> error.getClass.getName,
    "message" -> error.getMessage,
    "at" -> error.getStackTrace.take(MostFrames).map(_.getClassName).toSeq) ++ (error match {
      case known: SparkThrowable => Map("condition" -> known.getCondition, "parameters" -> known.getMessageParameters.asScala.toMap)
      case _ => Map.empty
    })

  /** The tables that the plans read: `[path, version]` each. */
  private def tables(plans: Seq[LogicalPlan]): Seq[Seq[Any]] = plans.flatMap(_.collectWithSubqueries {
    case LogicalRelation(files: HadoopFsRelation, _, _, _, _) => files.location
  }).collect { case index: HeadwaterFileIndex => Seq[Any](index.path, index.state.version) }.distinct
}
