package headwater.spark.bridge

import java.io.InterruptedIOException
import java.net.SocketTimeoutException
import java.nio.channels.ClosedByInterruptException

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import headwater.spark.HeadwaterException
import headwater.spark.bridge.messages._
import headwater.spark.catalog.{CreatedTables, HeadwaterTable}
import headwater.spark.dml.{HeadwaterDmlCommand, KeySetAccumulator, RowCounter}
import headwater.spark.scan.filters.PredicateTree
import headwater.spark.scan.late.{LateMaterialization, ParquetSource}
import headwater.spark.scan.tables.{HeadwaterFileIndex, IndexedFiles, KeyByTransaction, PinSnapshots, StagedRelation, TableState}
import headwater.spark.write.{PositionSet, ResolveHeadwaterWrites, WriteTarget}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{classic, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.headwater.bridge.StatementText
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.bridge.{JobProperties, QueryCompiler}
import org.apache.spark.sql.headwater.bridge.NamedTables
import org.apache.spark.sql.headwater.dml.MaterializedRows
import org.apache.spark.sql.headwater.scan.{FileSource, FootersJob, OrderedFiles}
import org.apache.spark.sql.headwater.write.{CopyJob, FailedJobCleanup, WriteJob}

/**
 * What the handler may use of the statement that called it: the statement's resolved plans and expressions by number, Spark's settings,
 * Hadoop's file systems, queries and writes.
 *
 * If a failure on this side ends the call, the handler hands the failure back, so that the user sees Spark's own error.
 *
 * @param locations of the tables of the statement; those at which nothing was given to reach them may be left out
 */
final class StatementContext(val session: SparkSession, locations: TableLocation*) {
  private val plans = mutable.ArrayBuffer.empty[LogicalPlan]
  private val expressions = mutable.ArrayBuffer.empty[Expression]
  private val numbers = mutable.HashMap.empty[Expression, Int]
  private val composed = mutable.HashSet.empty[String]
  private val pinned = mutable.HashMap.empty[String, TableState]
  private var versions = Option.empty[PinSnapshots.Versions]
  private var matched = new PositionSet
  private var keys: Option[KeySetAccumulator] = None
  private val kept = mutable.ArrayBuffer.empty[MaterializedRows]
  /** The deepest expression of a log in the statement: its levels and its text. */
  private var deepest = (0, "")
  @volatile private var endedBy: Option[Throwable] = None
  @volatile private var commit: Option[BegunCommit] = None
  @volatile private var refusesMore = false
  @volatile private var isOver = false
  @volatile private var hasInnerCommits = false
  @volatile private var isRedefined = false
  private val written = mutable.ArrayBuffer.empty[(String, Seq[String])]
  private val atStake = mutable.ArrayBuffer.empty[(String, Seq[String])]
  private val stores = new StoresByRoot(locations)
  private lazy val fileSystems = new HadoopFiles(SparkInternals.hadoopConf(session), stores.at, _.configuration(session))

  /** Makes a resolved plan available to rewrites as ``hw_plan.`n` `` and returns n. */
  def addPlan(plan: LogicalPlan): Int = { plans += plan; plans.size - 1 }

  /** Makes a resolved expression available to rewrites as ``hw_expr.`n` `` and returns n. Equal expressions have the same n. */
  def addExpression(expression: Expression): Int =
    numbers.getOrElseUpdate(expression, { expressions += expression; expressions.size - 1 })

  /** Makes an expression that a user wrote available to rewrites as ``hw_expr.`n` ``, parsed on its own and unresolved; returns n. */
  def addText(text: String): Int = { expressions += parsed(text); expressions.size - 1 }

  /** The same for an expression in a table's log, which may use nothing but the row. */
  def addStored(text: String): Int = QueryCompiler.unlessTooDeep(text) {
    expressions += QueryCompiler.parseStored(session, text)
    val levels = QueryCompiler.levels(expressions.last)
    if (levels > deepest._1) deepest = (levels, text)
    expressions.size - 1
  }

  /** The same as [[addText]], with the columns in it qualified: they are those of one side of a join that has them twice. */
  def addQualified(text: String, qualifier: String): Int = {
    expressions += QueryCompiler.qualified(session, text, qualifier); expressions.size - 1
  }

  private def parsed(text: String): Expression =
    if (composed(text)) QueryCompiler.parseComposed(session, text) else QueryCompiler.parse(session, text)

  /** This condition of the statement is no text of a user's: it was composed of a resolved one. */
  private[spark] def noteComposed(text: String): Unit = composed += text

  /** Makes a table, at its newest version, available as ``hw_plan.`n` `` for the target of a statement that changes rows; returns n. */
  def addTarget(table: String): Int = addPlan(DataSourceV2Relation.create(HeadwaterTable.load(session, located(table)), None, None))

  /** The [[ChangeRequest]] of a MERGE that the handler wrote, resolved as a user's is. Throws Spark's own error if it does not resolve. */
  def resolveMerge(sql: String): String =
    SparkInternals.analyzed(session, compile(sql)) match {
      case HeadwaterDmlCommand(statement, table, pieces) => Json.write(pieces.request(statement, this, table))
      case other => throw new IllegalStateException(s"no MERGE: $other")
    }

  /** Makes a query that a user wrote available to rewrites as ``hw_plan.`n` ``, parsed on its own; returns n. */
  def addQuery(text: String): Int = addPlan(QueryCompiler.query(session, text))

  /** The schema (JSON) of a plan's rows. */
  def planSchema(plan: Int): String = SparkInternals.rowSchema(plans(plan).schema)

  /** The path (a URI, or plain if it is local) that a user's text names, as Spark's readers take it. */
  def qualified(path: String): String = TableLocation.path(session, new Path(path))

  /** Hadoop's file systems with the session's configuration alone. */
  def sessionFiles: HadoopFiles = new HadoopFiles(SparkInternals.hadoopConf(session))

  /** Makes the rows of [[SourceFiles]] available as ``hw_plan.`n` ``; returns n. */
  def addSource(files: String, purpose: String): Int = unlessCancelled(purpose) {
    addPlan(FileSource.plan(session, Json.read[SourceFiles](files)))
  }

  /** Makes the rows of several plans of files, whose numbers (JSON) are given, available as ``hw_plan.`n` ``; returns n. */
  def addSources(numbers: String): Int =
    addPlan(FileSource.union(session, Json.strings(Json.parse(numbers)).map(number => plans(number.toInt))))

  /**
   * Makes a SELECT without FROM that a user wrote, over a plan's rows, available as ``hw_plan.`n` ``; returns n. `names` (JSON) are
   * those of its columns, if there are any.
   */
  def addSelection(text: String, plan: Int, names: String): Int =
    addPlan(QueryCompiler.unlessTooDeep(text)(
      QueryCompiler.selection(session, text, plans(plan), Json.strings(Json.parse(names)))))

  /** Makes a plan's rows with the columns that a [[Placement]] gives them available as ``hw_plan.`n` ``; returns n. */
  def addPlacement(placement: String): Int = {
    val wanted = Json.read[Placement](placement)
    val target = WriteTarget(HeadwaterTable.pinned(session, located(wanted.table), wanted.version), WriteTarget.Append)
    val rows = plans(wanted.plan)
    val placed =
      ResolveHeadwaterWrites.matchColumns(session, target.of(rows), rows, wanted.options, wanted.byName, brings = Some(wanted.schema))
    addPlan(SparkInternals.analyzed(session, placed))
  }

  /** The path of the file that Spark could not read, as it is damaged; null for any other error. */
  def damagedFile(error: Throwable): String = FileSource.damaged(error).orNull

  /** Releases the rows that were materialized for the statement. */
  def close(): Unit = { kept.foreach(_.drop()); kept.clear() }

  private[spark] def callBegins(): Unit = { endedBy = None; commit = None; isRedefined = false; written.clear(); atStake.clear() }

  /** Where the statement's own table lies, if what its catalog's entry says of it is no longer so after the call. */
  private[spark] def outdated: Option[TableLocation] =
    locations.headOption.filter(_ => SparkInternals.transaction(session).isEmpty)
      .filter(_.entry.exists(entry => isRedefined || commit.isDefined && entry.isBehind))

  /** The error on this side that ended the call: Spark's, or that of a nested call. */
  private[spark] def failure: Option[Throwable] =
    endedBy.map(e => HeadwaterException.find(e).orElse(tooDeep(e)).getOrElse(JobFailure.explain(this, plans.toSeq, e)))

  /** The error that says which expression of a log made the stack overflow. */
  private def tooDeep(error: Throwable): Option[Throwable] =
    Option.when(deepest._1 > StatementContext.ShallowLevels && StatementContext.overflows(error))(QueryCompiler.tooDeep(deepest._2))

  /** The commit that the call has begun. If the handler dies after this, the log is asked about the commit; the call is not run again. */
  private[spark] def commitBegun: Option[BegunCommit] = commit

  /** From now on the handler may begin neither a commit nor a Spark job. A commit that has begun is in `commitBegun`. */
  private[spark] def refuseMore(): Unit = synchronized { refusesMore = true }

  /** The same as [[refuseMore]]; marks the statement as cancelled. */
  private[spark] def cancel(): Unit = { isOver = true; refuseMore() }

  private[spark] def isCancelled: Boolean = isOver

  /** Whether the call has made a commit that is not its last. */
  private[spark] def isHalfDone: Boolean = hasInnerCommits

  /** Whether an interrupt of the thread ended the call. */
  private[spark] def endedByInterruption: Boolean = endedBy.exists(StatementContext.isInterruption)

  /** The commit that the call began is known not to be in the log. */
  private[spark] def commitNotMade(): Unit = commit = None

  /** Deletes the files that the call has written and that are known to be part of no commit, as far as possible. */
  private[spark] def discardWritten(): Unit = {
    written.foreach { case (table, files) => WriteJob.discard(session, located(table), files) }
    written.clear()
  }

  /** The session's settings that handlers read. Each request carries all of them, so that no call asks for a single one. */
  private[spark] def settings: SessionSettings = {
    val conf = SparkInternals.conf(session)
    lazy val application = session.sparkContext.getConf
    val passed = conf.getAllConfs.filter { case (key, _) =>
      key.startsWith("spark.databricks.delta.") || key.startsWith("spark.headwater.") ||
      key.startsWith("spark.sql.sources.") || key.startsWith("spark.sql.files.") || key == "spark.sql.caseSensitive" ||
      key.startsWith("spark.delta.") || key.startsWith("spark.io.delta.") || key.startsWith("spark.hadoop.delta.") ||
      key == "spark.sql.parquet.compression.codec" || key == "spark.sql.shuffle.partitions" ||
      key == "spark.sql.parquet.datetimeRebaseModeInWrite" ||
      CatalogSettings.isOne(conf, application, key)
    }
    SessionSettings(
      conf.sessionLocalTimeZone,
      Some(session.sparkContext.sparkUser),
      Some(session.sparkContext.applicationId),
      Some(session.version),
      passed,
      stores.identities)
  }

  /** A context of its own for a call about the same tables. */
  private[spark] def another: StatementContext = new StatementContext(session, stores.all: _*)

  /** Where a table of the statement lies, with the entry that the statement has reached it by. */
  private[bridge] def locationOf(path: String): TableLocation = locations.find(_.path == path).getOrElse(located(path))

  private def located(path: String): TableLocation = TableLocation(path, stores.at(path))

  // --- called by the handler -------------------------------------------------------------------------------------------------------

  /** A handler that waits calls this in between: throws if the statement is cancelled. */
  def checkCancelled(): Unit = if (refusesMore || Thread.interrupted()) {
    cancel()
    throw new InterruptedException("the statement was cancelled while it waited for other writers")
  }

  /** Names the commit that is about to be made ([[commitBegun]]). Throws if the statement is cancelled. */
  def beginCommit(description: String): Unit = synchronized {
    mayCommit()
    commit = Some(Json.read[BegunCommit](description))
  }

  /**
   * A commit is about to be made that is not the last one of the call. From here on, no error deletes the files that the call has written,
   * as they may be part of the table. If the handler dies, the whole call is run again. Throws if the statement is cancelled.
   */
  def beginInnerCommit(): Unit = synchronized {
    mayCommit()
    atStake ++= written
    written.clear()
  }

  /** The commit that began last is in the log. */
  def endInnerCommit(): Unit = {
    hasInnerCommits = true
    atStake.clear()
  }

  /** The commit that began last is in the log, and has another definition of the table. */
  def definitionChanged(): Unit = isRedefined = true

  private def mayCommit(): Unit = {
    if (refusesMore || Thread.interrupted()) {
      commitNotMade() // the attempt before this one lost its race
      cancel()
      throw new InterruptedException("the statement was cancelled before its commit")
    }
    showText()
  }

  private lazy val textIsShown = StatementText.show(session)

  private def showText(): Unit = textIsShown

  /** Runs Spark's work for the handler. It ends when the statement is cancelled. */
  private def unlessCancelled[T](purpose: String)(work: => T): T = {
    if (refusesMore) throw new InterruptedException("the statement was cancelled")
    showText()
    try JobProperties.describing(session.sparkContext, purpose)(PinSnapshots.sharing(versions)(work))
    catch { case e: Throwable if StatementContext.isInterruption(e) => cancel(); throw e }
  }

  /** Records what was thrown on this side and ended the call. Its stack trace, which users may see, loses the frames of the bridge. */
  def failed(error: Throwable): Unit = {
    StatementContext.withoutBridge(error)
    if (StatementContext.isInterruption(error)) cancel()
    endedBy = Some(error)
  }

  /** Writes the rows of a [[WriteSpecification]] into new files; returns [[WrittenRows]]. `purpose` describes its jobs in Spark's UI. */
  def write(specification: String, purpose: String): String =
    unlessCancelled(purpose)(Json.write(write(Json.read[WriteSpecification](specification))))

  private def write(specification: WriteSpecification): WrittenRows = {
    val counter = RowCounter(session)
    val (files, rows) = WriteJob.write(
      session.asInstanceOf[classic.SparkSession],
      compile(specification.query, counter),
      specification,
      located(specification.path).store)
    written += specification.path -> files.map(_.path)
    rows.foreach(noted => matched = noted.source)
    WrittenRows(files.map(file => Json.written(file.json)), counter.value, rows.map(_.describe))
  }

  /** Deletes the files that the call has written since its last commit because their rows are not needed. */
  def discard(): Unit = {
    commitNotMade()
    written ++= atStake
    atStake.clear()
    discardWritten()
  }

  /** Waits until failed jobs have removed the files they wrote under a path. Returns whether there were such jobs. */
  def settled(path: String): Boolean = FailedJobCleanup.settled(path)

  /** Copies the files of a [[CopySpecification]] by tasks; returns [[CopiedFiles]]. They stay, whatever becomes of the call. */
  def copyFiles(specification: String, purpose: String): String = unlessCancelled(purpose) {
    val wanted = Json.read[CopySpecification](specification)
    Json.write(CopyJob.run(session, wanted, stores.at(wanted.source), stores.at(wanted.target)))
  }

  /**
   * Runs a query and returns its rows, some of them in each JSON array: each string takes a call. `purpose` describes its jobs in Spark's
   * UI.
   */
  def query(sql: String, purpose: String): java.util.List[String] = unlessCancelled(purpose) {
    val rows = SparkInternals.json(SparkInternals.ofRows(session, compile(sql)))
    rows.grouped(StatementContext.RowsAtOnce).map(_.mkString("[", ",", "]")).toList.asJava
  }

  /** The statement's expressions as SQL, by number: JSON array. */
  def expressionTexts: String = Json.write(expressions.map(_.sql))

  /** EXPLAIN of a query, in one of Spark's modes. */
  def explain(sql: String, mode: String): String = SparkInternals.explain(session, compile(sql), mode)

  /**
   * Materializes a query's rows for the statement ([[MaterializedRows]]): it runs at most once. Returns the number of the plan that reads
   * them.
   */
  def keep(sql: String, purpose: String): Int = unlessCancelled(purpose) {
    val rows = MaterializedRows(session, compile(sql))
    kept += rows
    addPlan(rows.relation)
  }

  /** [[NotedKeys]]: the distinct keys that `note_keys` collected in the last query. */
  def notedKeys(): String = Json.write(NotedKeys(keys.flatMap(_.value).map(_.map(_.asScala.toSeq))))

  /** Whether a job failed because materialized rows were lost with their executor. */
  def lostKept(error: Throwable): Boolean = MaterializedRows.lost(error)

  /** Spark's estimate of a plan's size in bytes. */
  def planSize(plan: Int): Long =
    SparkInternals.estimatedBytes(session, PinSnapshots.pin(plans(plan), stateOf))

  /** [[ParquetFiles]] for a [[ParquetFilesQuestion]], if the plan only reads whole Parquet files; null for other plans. */
  def parquetFiles(question: String): String = {
    val asked = Json.read[ParquetFilesQuestion](question)
    ParquetSource.of(plans(asked.plan), asked.most).map { source =>
      source.locations(session).foreach(stores.add)
      val files =
        source.files.map(file => ParquetFile(TableLocation.path(session, file.getPath, located(file.getPath.toString).store), file.getLen))
      Json.write(ParquetFiles(files, asked.expressions.map(number => source.column(expressions(number)))))
    }.orNull
  }

  private def compile(sql: String): LogicalPlan = compile(sql, RowCounter(session))

  private def compile(sql: String, counter: RowCounter): LogicalPlan =
    PinSnapshots.pin(
      QueryCompiler.compile(session, sql, plans.toSeq, expressions.toSeq, matched, counter, newKeys()),
      stateOf)

  private def stateOf(index: HeadwaterFileIndex): Option[TableState] = if (index.live) pinned.get(index.path) else None

  private def newKeys(): KeySetAccumulator = {
    keys = Some(KeySetAccumulator(session, StatementContext.mostKeys))
    keys.get
  }

  /**
   * Adds a copy of a table's relation that reads the files of a [[Restriction]]. It has two more columns: `fileColumn`, the number of a
   * row's file in the order of the list, and `rowColumn`, the row's position in the file; and if asked for, those of row tracking. Returns
   * the new plan's number. From now on, the statement reads that version of the table everywhere.
   */
  def restrict(plan: Int, restriction: String): Int = {
    val wanted = Json.read[Restriction](restriction)
    val relation = plans(plan).asInstanceOf[LogicalRelation]
    val files = relation.relation.asInstanceOf[HadoopFsRelation]
    val index = files.location.asInstanceOf[HeadwaterFileIndex]
    val version = TableState.of(index.path, wanted.pinned)
    pinned(index.path) = version
    val listed = version.copy(sizeInBytes = wanted.listedBytes, hasDeletionVectors = wanted.listsDeletionVectors)
    val pinnedIndex = index.pinned(listed, index.partitionSchema, session)
    val only = new HeadwaterFileIndex(
      pinnedIndex.indexed.copy(only = Some(wanted.files), numbersFiles = true, valuesPrune = wanted.valuesPrune))
    val late = LateMaterialization(wanted.lateColumns.toSet, wanted.rowsPerLateValue)
    addPlan(SparkInternals.positioned(
      relation,
      only.in(files, Some(late), Some(wanted.rowColumn)).copy()(SparkInternals.having(session, wanted.settings)),
      wanted.fileColumn,
      wanted.rowColumn,
      wanted.rowTrackingColumns))
  }

  /**
   * From here on, the statement reads the table of a relation at a [[PinnedVersion]] wherever it does, and each other table at the version
   * that the first of its queries finds.
   */
  def pin(plan: Int, version: String): Unit = {
    val path = index(plan).path
    pinned(path) = TableState.of(path, Json.read[PinnedVersion](version))
    versions = Some(PinSnapshots.newVersions())
  }

  /** [[MatchingPartitions]] for a [[PartitionsQuestion]]: in which partitions a condition is true. */
  def matchingPartitions(question: String): String = {
    val asked = Json.read[PartitionsQuestion](question)
    Json.write(MatchingPartitions(index(asked.plan).matching(expressions(asked.condition), asked.partitions.map(_.map(_.orNull)))))
  }

  private def index(plan: Int): HeadwaterFileIndex =
    plans(plan).asInstanceOf[LogicalRelation].relation.asInstanceOf[HadoopFsRelation].location.asInstanceOf[HeadwaterFileIndex]

  /** [[Footers]] for a [[FootersQuestion]]: what the footers of Parquet files say, read by tasks. */
  def footers(question: String, purpose: String): String = unlessCancelled(purpose) {
    val asked = Json.read[FootersQuestion](question)
    Json.write(FootersJob.run(session, asked, if (asked.table.isEmpty) StoreOptions.none else stores.at(asked.table)))
  }

  /** Adds a relation that reads the files of [[FilesOfVersion]]. Returns its number as a plan. */
  def addRelation(files: String): Int = {
    val wanted = Json.read[FilesOfVersion](files)
    val loaded = HeadwaterTable.pinned(session, located(wanted.table), wanted.version)
    val inOrder = wanted.tasks.nonEmpty
    val state = TableState.of(loaded).copy(hasDeletionVectors = wanted.listsDeletionVectors)
    val numbered = wanted.fileColumn.zip(wanted.rowColumn)
    val only = IndexedFiles.of(loaded, live = false)
      .copy(state = state, only = Some(wanted.files), numbersFiles = inOrder || numbered.isDefined)
    val index = new HeadwaterFileIndex(only)
    val relation = loaded.relationOver(index, if (wanted.skipsNone) StatementContext.WholeFiles else Map.empty)
    addPlan(numbered match {
      case Some((file, row)) =>
        // It may list deleted rows, which may have nulls that the table has not allowed since.
        val nullable = SparkInternals.nullable(relation)
        val files = index.in(nullable.relation.asInstanceOf[HadoopFsRelation], positionColumn = Some(row))
        SparkInternals.positioned(nullable, files.copy()(SparkInternals.having(session, wanted.settings)), file, row, Nil)
      case None if inOrder => OrderedFiles.plan(session, relation, wanted.tasks.map(_.toInt), wanted.rowTrackingColumns)
      case None => SparkInternals.tracked(relation, wanted.rowTrackingColumns)
    })
  }

  /** Adds a relation that reads the [[StagedFiles]] of a write job. Returns its number as a plan. */
  def addStaged(files: String): Int = {
    val wanted = Json.read[StagedFiles](files)
    addPlan(StagedRelation(session, wanted, located(wanted.path).store))
  }

  /** The type of a Spark SQL expression over a schema (both JSON). Throws Spark's own error if it does not resolve. */
  def checkExpression(text: String, schema: String): String = QueryCompiler.unlessTooDeep(text) {
    SparkInternals.storedType(QueryCompiler.expressionType(session, text, SchemaText.read(schema))).json
  }

  /** Throws if an expression that a user wrote over a schema (JSON) cannot be stored in a table's log. */
  def checkStorable(text: String, schema: String): Unit =
    QueryCompiler.unlessTooDeep(text)(QueryCompiler.notStorable(session, text, SchemaText.read(schema))).foreach(throw _)

  /** The parts of an expression over a schema (JSON) that follow from more than a row, as a list of SQL texts. */
  def checkOverRow(text: String, schema: String): String =
    Json.write(QueryCompiler.unlessTooDeep(text)(QueryCompiler.beyondRow(session, text, SchemaText.read(schema))))

  /** Sets a setting of the session. */
  def set(setting: String, value: String): Unit = session.conf.set(setting, value)

  /** Takes a setting of the session back to its default. */
  def unset(setting: String): Unit = session.conf.unset(setting)

  /** The session's transaction over several statements is about to end. */
  def endTransaction(): Unit = KeyByTransaction.end(session)

  /** [[SparkRun]] of each statement of an open transaction that runs, or ran lately: JSON array. */
  def runsIn(transaction: String): String =
    Json.write(SparkInternals.runsIn(session, transaction).map { case (began, ended) => SparkRun(began, ended) })

  /** [[CheckedCondition]]: a condition over a schema (JSON) as Spark resolves it. Throws Spark's own error if it does not resolve. */
  def checkCondition(text: String, schema: String): String = {
    val condition = QueryCompiler.unlessTooDeep(text)(QueryCompiler.condition(session, parsed(text), SchemaText.read(schema)))
    val columns = Option.when(PredicateTree.isOverRow(condition))(condition.references.toSeq.map(_.name))
    Json.write(CheckedCondition(PredicateTree.of(condition), columns))
  }

  /** A table has another version, made by a statement that is not about this table alone. */
  def tableChanged(table: String): Unit = SparkInternals.refreshCaches(session, located(table))

  /** Whether the session catalog has a table or view by the name of a [[CreatedTable]]. */
  def isNameTaken(created: String): Boolean = CreatedTables(session).isTaken(Json.read[CreatedTable](created))

  /** Makes the entry of a [[CreatedTable]], which is there now; returns the reason where that fails. */
  def registerTable(created: String): String = CreatedTables(session).register(Json.read[CreatedTable](created)).orNull

  /** [[NamedTable]] of a name, whose parts are a JSON array. */
  def tableNamed(name: String): String = Json.write(new NamedTables(session).named(Json.strings(Json.parse(name))))

  /** [[NamedTable]] of each Delta table with keys in the namespace of a table: JSON array. */
  def tablesBeside(name: String): String = Json.write(new NamedTables(session).beside(Json.strings(Json.parse(name))))

  /** Has a table compacted in the background. Returns at once. */
  def compactLater(table: String): Unit = AutoCompactions.submit(session, located(table))

  /** Has the statement reach a table with other options (JSON) from here on. */
  def reach(table: String, options: String): Unit =
    stores.replace(table, stores.at(table).replaced(session, new Path(table), Json.read[Map[String, String]](options)))

  def files: HadoopFiles = fileSystems
}

private object StatementContext {
  /** How many keys of a MERGE's source are collected, for the conflict check against other writers. */
  private val mostKeys = 50000

  /** How many rows of a query's answer the handler takes with one call. */
  private val RowsAtOnce = 10000

  /** Options of a relation that count before the session's settings. */
  private val WholeFiles = Map("ignoreCorruptFiles" -> "false", "ignoreMissingFiles" -> "false")

  /** An expression of so many levels is not what a stack overflows for. */
  private val ShallowLevels = 100

  /** Whether a stack overflowed, that of a task perhaps, of which only the message says so. */
  private def overflows(error: Throwable): Boolean = StoreFailure.causes(error).exists(e =>
    e.isInstanceOf[StackOverflowError] || Option(e.getMessage).exists(_.contains(classOf[StackOverflowError].getName)))

  /** Whether an error, or one of its causes, comes from an interrupt of the thread. */
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
