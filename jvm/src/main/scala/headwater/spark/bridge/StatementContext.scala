package headwater.spark.bridge

import java.io.InterruptedIOException
import java.net.SocketTimeoutException
import java.nio.channels.ClosedByInterruptException

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.HeadwaterException
import headwater.spark.catalog.{HeadwaterTable, TableVersion}
import headwater.spark.dml.{KeySetAccumulator, RowCounter}
import headwater.spark.scan.{FilterText, HeadwaterFileIndex, LateMaterialization, ParquetSource, PinSnapshots, TableState}
import headwater.spark.write.PositionSet
import org.apache.spark.sql.{classic, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.headwater.bridge.StatementText
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.bridge.{JobProperties, QueryCompiler}
import org.apache.spark.sql.headwater.dml.MaterializedRows
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat
import org.apache.spark.sql.headwater.write.{FailedJobCleanup, WriteJob}

/**
 * What a handler may use of the statement that called it: its resolved pieces by number, Spark's settings, Hadoop's file systems and a
 * writer. Where a failure inside one of these ends the call, the handler hands it back, so that the user sees Spark's own error.
 */
final class StatementContext(val session: SparkSession) {
  private val plans = mutable.ArrayBuffer.empty[LogicalPlan]
  private val expressions = mutable.ArrayBuffer.empty[Expression]
  private val numbers = mutable.HashMap.empty[Expression, Int]
  private val pinned = mutable.HashMap.empty[String, TableState]
  private var matched = new PositionSet
  private var keys: Option[KeySetAccumulator] = None
  private val kept = mutable.ArrayBuffer.empty[MaterializedRows]
  @volatile private var endedBy: Option[Throwable] = None
  @volatile private var commit: Option[String] = None
  @volatile private var refusesMore = false
  @volatile private var isOver = false
  private val written = mutable.ArrayBuffer.empty[(String, String)]
  private lazy val fileSystems = new HadoopFiles(SparkInternals.hadoopConf(session))

  /** Makes a resolved plan available to rewrites as ``hw_plan.`n` ``; returns n. */
  def addPlan(plan: LogicalPlan): Int = { plans += plan; plans.size - 1 }

  /** Makes a resolved expression available to rewrites as ``hw_expr.`n` ``; returns n, the same for the same expression. */
  def addExpression(expression: Expression): Int =
    numbers.getOrElseUpdate(expression, { expressions += expression; expressions.size - 1 })

  /** Makes an expression that a user wrote available to rewrites as ``hw_expr.`n` ``, parsed alone and not yet resolved; returns n. */
  def addText(text: String): Int = { expressions += QueryCompiler.parse(session, text); expressions.size - 1 }

  /** Lets go of what was kept for the statement. */
  def close(): Unit = { kept.foreach(_.drop()); kept.clear() }

  private[spark] def callBegins(): Unit = { endedBy = None; commit = None; written.clear() }

  /** The error of Spark's, or of a call within this one, that ended the call. */
  private[spark] def failure: Option[Throwable] = endedBy.map(e => HeadwaterException.find(e).getOrElse(JobFailure.explained(this, plans.toSeq, e)))

  /** What the call last said it would commit. It stays said: a handler that dies between its commit and its answer is asked, not run again. */
  private[spark] def commitBegun: Option[String] = commit

  /** From here on the handler may begin no commit, nor work of Spark's. What has begun is in `commitBegun`. */
  private[spark] def refuseMore(): Unit = synchronized { refusesMore = true }

  /** As [[refuseMore]], for a statement that is to end soon. */
  private[spark] def cancel(): Unit = { isOver = true; refuseMore() }

  private[spark] def isCancelled: Boolean = isOver

  /** Whether an interruption of the thread ended the call. */
  private[spark] def endedByInterruption: Boolean = endedBy.exists(StatementContext.isInterruption)

  /** What the call said it would commit is known not to be in the log. */
  private[spark] def commitNotMade(): Unit = commit = None

  /** Deletes what the call has written, as far as it can. Only for a call that is known to have committed nothing. */
  private[spark] def discardWritten(): Unit = {
    written.foreach { case (table, files) => WriteJob.discard(session, table, files) }
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

  /** For a handler that waits: a cancelled statement ends here. */
  def checkCancelled(): Unit = if (refusesMore || Thread.interrupted()) {
    cancel()
    throw new InterruptedException("the statement was cancelled while it waited for other writers")
  }

  /** Tells what is about to be committed; a handler that dies after this is asked about it, not run again. A cancelled statement ends here. */
  def beginCommit(description: String): Unit = synchronized {
    if (refusesMore || Thread.interrupted()) {
      commitNotMade() // the attempt before this one lost its race
      cancel()
      throw new InterruptedException("the statement was cancelled before its commit")
    }
    showText()
    commit = Some(description)
  }

  private lazy val textIsShown = StatementText.show(session)

  private def showText(): Unit = textIsShown

  /** Work of Spark's for the handler, which ends when the statement is cancelled. */
  private def unlessCancelled[T](purpose: String)(work: => T): T = {
    if (refusesMore) throw new InterruptedException("the statement was cancelled")
    showText()
    try JobProperties.describing(session.sparkContext, purpose)(work) catch { case e: Throwable if StatementContext.isInterruption(e) => cancel(); throw e }
  }

  /** Tells what, thrown on this side, ended the call. A user who is shown where it was thrown need not see the bridge there. */
  def failed(error: Throwable): Unit = {
    StatementContext.withoutBridge(error)
    if (StatementContext.isInterruption(error)) cancel()
    endedBy = Some(error)
  }

  /** Runs a write of a rewrite's rows into new files; JSON: `files`, `counted` rows, and of a tracked query what its rows said ([[RewriteTracking.describe]]). */
  def write(specification: String): String = {
    val spec = Json.parse(specification)
    unlessCancelled(spec.get("purpose").asText())(write(spec))
  }

  private def write(spec: JsonNode): String = {
    val counter = RowCounter(session)
    val (files, rows) = WriteJob.write(session.asInstanceOf[classic.SparkSession], compile(spec.get("query").asText(), counter), spec)
    written += spec.get("path").asText() -> files.mkString("[", ",", "]")
    rows.foreach(noted => matched = noted.source)
    Json.write(Map[String, Any]("files" -> files.map(Json.parse), "counted" -> counter.value) ++ rows.map(_.describe).getOrElse(Map.empty))
  }

  /** Deletes what the call has written, whose rows are not needed after all. No commit of it was made. */
  def discard(): Unit = {
    commitNotMade()
    discardWritten()
  }

  /** Waits until failed jobs have removed what they wrote to a table's place; whether there were any. */
  def settled(path: String): Boolean = FailedJobCleanup.settled(path)

  /** Runs a query and returns its rows, each as a JSON text; `purpose` is what Spark's UI calls its jobs. */
  def query(sql: String, purpose: String): java.util.List[String] =
    unlessCancelled(purpose)(SparkInternals.ofRows(session, compile(sql)).toJSON.collect().toSeq.asJava)

  /** The statement's expressions by number, as SQL: JSON array. */
  def expressionTexts: String = Json.write(expressions.map(_.sql))

  /** How Spark would run a query, in one of the modes of EXPLAIN. */
  def explain(sql: String, mode: String): String = SparkInternals.explain(session, compile(sql), mode)

  /** Runs a query at most once, when its rows are first read, and keeps them for the statement; returns their number as a plan. */
  def keep(sql: String, purpose: String): Int = unlessCancelled(purpose) {
    val rows = MaterializedRows(session, compile(sql))
    kept += rows
    addPlan(rows.relation)
  }

  /** The distinct keys that the last query with `note_keys` noted, as a JSON array of arrays; null where there are too many. */
  def notedKeys(): String = keys.flatMap(_.value).map(all => Json.write(all.map(_.asScala.toSeq))).orNull

  /** Whether a job of this call failed as rows kept for the statement were lost with their executor. */
  def lostKept(error: Throwable): Boolean = MaterializedRows.lost(error)

  /** Spark's estimate of a plan's size in bytes. */
  def planSize(plan: Int): Long =
    SparkInternals.estimatedBytes(session, PinSnapshots.pin(plans(plan), index => pinned.get(index.path)))

  /**
   * What a plan reads, where it does no more than read whole Parquet files: `files` (`[path, size]`) and the `columns` that expressions, given
   * by their numbers, stand for (null for another expression); null for other plans and for more files than `most`.
   */
  def parquetFiles(plan: Int, wanted: String, most: Int): String = ParquetSource.of(plans(plan), most).map { source =>
    val numbers = Json.parse(wanted).elements().asScala.map(_.asInt()).toSeq
    Json.write(Map(
      "files" -> source.files.map(file => Seq[Any](SparkInternals.tablePath(session, file.getPath), file.getLen)),
      "columns" -> numbers.map(number => source.column(expressions(number)))))
  }.orNull

  private def compile(sql: String): LogicalPlan = compile(sql, RowCounter(session))

  private def compile(sql: String, counter: RowCounter): LogicalPlan =
    PinSnapshots.pin(QueryCompiler.compile(session, sql, plans.toSeq, expressions.toSeq, matched, counter, newKeys()), index => pinned.get(index.path))

  private def newKeys(): KeySetAccumulator = {
    keys = Some(KeySetAccumulator(session, StatementContext.mostKeys))
    keys.get
  }

  /**
   * Makes a table's relation among the statement's plans available at a version and restricted to files, with two more columns, `fileColumn` and
   * `rowColumn`: the number of a row's file, in the order they are listed, and its position there. Returns the new plan's number. From here on, the statement reads the
   * table at that version wherever else it does.
   */
  def restrict(plan: Int, description: String): Int = {
    val described = Json.parse(description)
    val relation = plans(plan).asInstanceOf[LogicalRelation]
    val files = relation.relation.asInstanceOf[HadoopFsRelation]
    val index = files.location.asInstanceOf[HeadwaterFileIndex]
    def state(bytes: String, vectors: String) = TableState(
      index.path, described.get("version").asLong(), Json.text(described.get("tableId")), described.get(bytes).asLong(),
      described.get(vectors).asBoolean(), described.get("schema").asText())
    pinned(index.path) = state("sizeInBytes", "hasDeletionVectors")
    val listed = state("listedBytes", "listsDeletionVectors")
    val only = new HeadwaterFileIndex(
      session, index.path, listed, live = false, index.partitionSchema, Map.empty, Some(described.get("files")), numbersFiles = true)
    val (number, position) = (described.get("fileColumn").asText(), described.get("rowColumn").asText())
    val late = LateMaterialization(Json.strings(described.get("lateColumns")).toSet, described.get("rowsPerLateValue").asInt())
    val format = files.fileFormat.asInstanceOf[HeadwaterParquetFileFormat].at(listed, late, Some(position))
    addPlan(SparkInternals.positioned(relation, files.copy(location = only, fileFormat = format)(files.sparkSession), number, position))
  }

  /** In which partitions of a table's relation, given by their texts, a condition is true; null where it is about more than those. */
  def matchingPartitions(plan: Int, condition: Int, partitions: String): String = {
    val index = plans(plan).asInstanceOf[LogicalRelation].relation.asInstanceOf[HadoopFsRelation].location.asInstanceOf[HeadwaterFileIndex]
    val values = Json.parse(partitions).elements().asScala.map(_.elements().asScala.map(Json.text).toSeq).toSeq
    index.matching(expressions(condition), values).map(Json.write(_)).orNull
  }

  /** Adds a relation over some files of a table's version to the statement's plans; returns its number. */
  def addRelation(table: String, version: Long, files: String): Int = {
    val loaded = HeadwaterTable.load(session, table, TableVersion(version))
    addPlan(loaded.relationOver(
      new HeadwaterFileIndex(session, table, TableState.of(loaded), live = false, loaded.partitionSchema, Map.empty, Some(Json.parse(files))), Map.empty))
  }

  /** Checks that a text is a Spark SQL expression over a schema (JSON); an error comes out as Spark's own. */
  def checkExpression(text: String, schema: String): String = {
    QueryCompiler.expressionType(session, text, schema).json
  }

  /**
   * Checks that a text is a condition over a schema (JSON); an error comes out as Spark's own. Returns it as Spark understood it, with times
   * in UTC, for pruning; null where SQL cannot say that.
   */
  def checkCondition(text: String, schema: String): String =
    FilterText.inUtc(QueryCompiler.condition(session, text, schema)).orNull

  def files: HadoopFiles = fileSystems
}

private object StatementContext {
  /** So many keys of a MERGE's source are noted, for the case that the statement loses to another writer. */
  private val mostKeys = 50000

  /** Whether an error, or a cause of it, is what an interruption of its thread looks like. */
  def isInterruption(error: Throwable): Boolean = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).exists {
    case _: SocketTimeoutException => false
    case _: InterruptedException | _: InterruptedIOException | _: ClosedByInterruptException => true
    case _ => false
  }

  private val ofBridge = Seq("py4j.", "jdk.proxy", "jdk.internal.reflect.", "java.lang.reflect.")

  private def withoutBridge(error: Throwable): Unit =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).foreach { e =>
      e.setStackTrace(e.getStackTrace.filterNot(frame => ofBridge.exists(frame.getClassName.startsWith)))
    }
}
