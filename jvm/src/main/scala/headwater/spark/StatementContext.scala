package headwater.spark

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic
import org.apache.spark.sql.headwater.{FileWriter, QueryCompiler, SparkInternals}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.expressions.Expression

/**
 * What a handler may use of the statement that called it: its resolved pieces by number, Spark's settings, Hadoop's file systems and a
 * writer. Where a failure inside one of these ends the call, the handler hands it back, so that the user sees Spark's own error.
 */
final class StatementContext(val session: SparkSession) {
  private val plans = mutable.ArrayBuffer.empty[LogicalPlan]
  private val expressions = mutable.ArrayBuffer.empty[Expression]
  @volatile private var endedBy: Option[Throwable] = None
  @volatile private var commit: Option[String] = None
  private val written = mutable.ArrayBuffer.empty[(String, String)]
  private lazy val fileSystems = new HadoopFiles(session)

  /** Makes a resolved plan available to rewrites as ``hw_plan.`n` ``; returns n. */
  def addPlan(plan: LogicalPlan): Int = { plans += plan; plans.size - 1 }

  /** Makes a resolved expression available to rewrites as ``hw_expr.`n` ``; returns n. */
  def addExpression(expression: Expression): Int = { expressions += expression; expressions.size - 1 }

  private[spark] def callBegins(): Unit = { endedBy = None; commit = None; written.clear() }

  /** The error of Spark's, or of a call within this one, that ended the call. */
  private[spark] def failure: Option[Throwable] = endedBy.map(e => HeadwaterException.find(e).getOrElse(e))

  /** What the call last said it would commit. It stays said: a handler that dies between its commit and its answer is asked, not run again. */
  private[spark] def commitBegun: Option[String] = commit

  /** What the call said it would commit is known not to be in the log. */
  private[spark] def commitNotMade(): Unit = commit = None

  /** Deletes what the call has written, as far as it can. Only for a call that is known to have committed nothing. */
  private[spark] def discardWritten(): Unit = {
    written.foreach { case (table, files) => FileWriter.discard(session, table, files) }
    written.clear()
  }

  /** The session's settings that handlers read, sent along with each request so that none is asked for singly. */
  private[spark] def settings: Map[String, Any] = {
    val conf = SparkInternals.conf(session)
    val passed = conf.getAllConfs.filter { case (key, _) =>
      key.startsWith("spark.databricks.delta.") || key.startsWith("spark.headwater.") ||
        key.startsWith("spark.sql.sources.") || key.startsWith("spark.sql.files.") || key == "spark.sql.caseSensitive" ||
        key == "spark.sql.parquet.compression.codec" || key == "spark.sql.shuffle.partitions"
    }
    Map(
      "timeZone" -> conf.sessionLocalTimeZone,
      "user" -> session.sparkContext.sparkUser,
      "applicationId" -> session.sparkContext.applicationId,
      "sparkVersion" -> session.version,
      "confs" -> passed)
  }

  // --- called by the handler -------------------------------------------------------------------------------------------------------

  /** Tells what is about to be committed; a handler that dies after this is asked about it, not run again. A cancelled statement ends here. */
  def beginCommit(description: String): Unit = {
    if (Thread.interrupted()) throw new InterruptedException("the statement was cancelled before its commit")
    commit = Some(description)
  }

  /** Tells what, thrown on this side, ended the call. A user who is shown where it was thrown need not see the bridge there. */
  def failed(error: Throwable): Unit = {
    StatementContext.withoutBridge(error)
    endedBy = Some(error)
  }

  /** Runs a write of a rewrite's rows into new files and returns them as JSON. */
  def write(specification: String): String = {
    val spec = Json.parse(specification)
    val query = QueryCompiler.compile(session, spec.get("query").asText(), plans.toSeq, expressions.toSeq)
    val files = FileWriter.write(session.asInstanceOf[classic.SparkSession], query, spec)
    written += spec.get("path").asText() -> files
    files
  }

  /** Runs a query and returns its rows, each as a JSON text. */
  def query(sql: String): java.util.List[String] = {
    val plan = QueryCompiler.compile(session, sql, plans.toSeq, expressions.toSeq)
    SparkInternals.ofRows(session, plan).toJSON.collect().toSeq.asJava
  }

  /** Adds a relation over some files of a table's version to the statement's plans; returns its number. */
  def addRelation(table: String, version: Long, files: String): Int = {
    addPlan(HeadwaterTable.load(session, table, TableVersion(version)).restrictedTo(Json.parse(files)))
  }

  /** Checks that a text is a Spark SQL expression over a schema (JSON); an error comes out as Spark's own. */
  def checkExpression(text: String, schema: String): String = {
    QueryCompiler.expressionType(session, text, schema).json
  }

  def files: HadoopFiles = fileSystems
}

private object StatementContext {
  private val ofBridge = Seq("py4j.", "jdk.proxy", "jdk.internal.reflect.", "java.lang.reflect.")

  private def withoutBridge(error: Throwable): Unit =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).foreach { e =>
      e.setStackTrace(e.getStackTrace.filterNot(frame => ofBridge.exists(frame.getClassName.startsWith)))
    }
}
