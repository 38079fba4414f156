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
 * writer. A failure inside one of these is kept, so that the user sees Spark's own error and not the bridge's.
 */
final class StatementContext(val session: SparkSession) {
  private val plans = mutable.ArrayBuffer.empty[LogicalPlan]
  private val expressions = mutable.ArrayBuffer.empty[Expression]
  @volatile private var failure: Option[Throwable] = None
  @volatile private var commit: Option[String] = None
  private lazy val fileSystems = new HadoopFiles(session)

  /** Makes a resolved plan available to rewrites as ``hw_plan.`n` ``; returns n. */
  def addPlan(plan: LogicalPlan): Int = { plans += plan; plans.size - 1 }

  /** Makes a resolved expression available to rewrites as ``hw_expr.`n` ``; returns n. */
  def addExpression(expression: Expression): Int = { expressions += expression; expressions.size - 1 }

  private[spark] def takeFailure(): Option[Throwable] = { val taken = failure; failure = None; taken }
  private[spark] def commitBegun: Option[String] = commit

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

  private def keep[T](body: => T): T =
    try body
    catch { case e: Throwable => failure = Some(e); throw e }

  // --- called by the handler -------------------------------------------------------------------------------------------------------

  /** Tells what is about to be committed; a handler that dies after this is asked about it, not run again. */
  def beginCommit(description: String): Unit = commit = Some(description)

  def endCommit(): Unit = commit = None

  /** Runs a write of a rewrite's rows into new files and returns them as JSON. */
  def write(specification: String): String = keep {
    val spec = Json.parse(specification)
    val query = QueryCompiler.compile(session, spec.get("query").asText(), plans.toSeq, expressions.toSeq)
    FileWriter.write(session.asInstanceOf[classic.SparkSession], query, spec)
  }

  /** Runs a query and returns its rows, each as a JSON text. */
  def query(sql: String): java.util.List[String] = keep {
    val plan = QueryCompiler.compile(session, sql, plans.toSeq, expressions.toSeq)
    SparkInternals.ofRows(session, plan).toJSON.collect().toSeq.asJava
  }

  /** Adds a relation over some files of a table's version to the statement's plans; returns its number. */
  def addRelation(table: String, version: Long, files: String): Int = keep {
    addPlan(HeadwaterTable.load(session, table, TableVersion(version)).restrictedTo(Json.parse(files)))
  }

  /** Checks that a text is a Spark SQL expression over a schema (JSON); an error comes out as Spark's own. */
  def checkExpression(text: String, schema: String): String = keep {
    QueryCompiler.expressionType(session, text, schema).json
  }

  def files: HadoopFiles = fileSystems
}
