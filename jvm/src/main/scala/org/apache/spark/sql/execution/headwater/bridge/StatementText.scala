package org.apache.spark.sql.execution.headwater.bridge

import java.util.UUID

import scala.util.control.NonFatal
import scala.util.matching.Regex

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.internal.config.SECRET_REDACTION_PATTERN
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.{ExplainMode, SparkPlanInfo, SQLExecution}
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.internal.StaticSQLConf.SQL_EVENT_TRUNCATE_LENGTH
import org.apache.spark.util.Utils

/**
 * Shows a statement's own text as the description of its execution in Spark's UI. Spark would show the call site, or the message of Spark
 * Connect. A description that the program has set stays.
 */
object StatementText extends Logging {
  private val OfConnect = "Spark Connect - "
  /** A name and its text value. Possessive quantifiers: a statement may have megabytes, and the search must not backtrack over them. */
  private val Pair = """(?s)(['"`]?)(?<![\w.\-])([\w.\-]++)\1(\s*+=?+\s*+)('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")""".r
  private val Hidden = "'*********(redacted)'"

  /** Describes the running execution if it is that of a text. A failure here must not fail the statement. */
  def show(session: SparkSession): Unit = try {
    val context = session.sparkContext
    val description = context.getLocalProperty(SparkContext.SPARK_JOB_DESCRIPTION)
    for {
      id <- Option(context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY)).map(_.toLong)
      if description == null || description.startsWith(OfConnect)
      execution <- Option(SQLExecution.getQueryExecution(id))
      text <- execution.logical.origin.sqlText
    } {
      val conf = SparkInternals.conf(session)
      val ofContext = context.conf // each call of the public `getConf` copies it
      val shown = Utils.redact(conf.stringRedactionPattern, withoutSecrets(text.trim, ofContext.get(SECRET_REDACTION_PATTERN)))
      val site = context.getCallSite()
      val modified = conf.redactOptions(conf.getAllConfs.filterNot { case (key, value) =>
        key.startsWith("spark.driver.") || key.startsWith("spark.executor.") || ofContext.getOption(key).contains(value)
      })
      // For Spark's own listener, the last event of an execution counts.
      context.listenerBus.post(event(
        Long.box(id),
        Option(context.getLocalProperty(SQLExecution.EXECUTION_ROOT_ID_KEY)).map(_.toLong),
        shown.take(ofContext.get(SQL_EVENT_TRUNCATE_LENGTH)),
        site.longForm,
        execution.explainString(ExplainMode.fromString(conf.uiExplainMode)),
        SparkPlanInfo.fromSparkPlan(execution.executedPlan),
        Long.box(System.currentTimeMillis()),
        modified,
        context.getJobTags(),
        Option(context.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID)),
        Option(context.getLocalProperty("spark.sql.execution.query.id")).map(UUID.fromString)))
    }
  } catch { case e @ (NonFatal(_) | _: LinkageError) => logDebug("the statement's text is not shown", e) }

  /** Redacts the values of options and properties whose names match the pattern of secrets. */
  def withoutSecrets(text: String, secret: Regex): String = Pair.replaceAllIn(
    text,
    found =>
      Regex.quoteReplacement(
        if (secret.findFirstIn(found.group(2)).isEmpty) found.matched
        else s"${found.group(1)}${found.group(2)}${found.group(1)}${found.group(3)}$Hidden"))

  /** Later Spark versions add fields with defaults; one JAR serves several versions. */
  private def event(values: AnyRef*): SparkListenerSQLExecutionStart = {
    val constructor = classOf[SparkListenerSQLExecutionStart].getConstructors.maxBy(_.getParameterCount)
    val count = constructor.getParameterCount
    val defaults = (values.size + 1 to count).map { position =>
      SparkListenerSQLExecutionStart.getClass.getMethod(s"apply$$default$$$position").invoke(SparkListenerSQLExecutionStart)
    }
    constructor.newInstance((values.take(count) ++ defaults): _*).asInstanceOf[SparkListenerSQLExecutionStart]
  }
}
