package headwater.spark.changes

import java.util

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.{Bridge, SchemaText, StoreOptions, TableLocation}
import headwater.spark.bridge.messages.{
  AsksForChangesRequest, ChangeGroup, ChangesAnswer, ChangesBound, ChangesForm, FunctionArgument, TableChangesRequest
}
import headwater.spark.catalog.{ColumnsTable, HeadwaterTable}
import headwater.spark.scan.tables.{IndexedFiles, TableRelation, TableState}
import headwater.spark.shims.ChangelogShim
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{
  Alias, Attribute, AttributeReference, Cast, EvalMode, Expression, Literal, RuntimeReplaceable
}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project, Union}
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.connector.catalog.{Column, SupportsRead, TableCapability}
import org.apache.spark.sql.connector.read.{Scan, ScanBuilder}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.bridge.QueryCompiler
import org.apache.spark.sql.headwater.dml.VariableResolver
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat
import org.apache.spark.sql.types.{ArrayType, DataType, StringType, StructType, TimestampType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String

/** The changes of a range of versions, as the handler described them: groups of files, each of which one file relation reads. */
class HeadwaterChangelog(session: SparkSession, store: StoreOptions, load: => ChangesAnswer) extends ColumnsTable with SupportsRead
    with ChangelogShim {
  private lazy val info = load
  private def path = info.path
  private lazy val columnTypes = SchemaText.read(info.schema)

  override def name(): String = s"changes of delta.`$path`"

  override def columns(): Array[Column] = SparkInternals.columns(columnTypes)

  override def capabilities(): util.Set[TableCapability] = util.EnumSet.of(TableCapability.BATCH_READ)

  // ResolveTableChanges replaces this with file relations before Spark asks for a scan.
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
    new Scan {
      override def readSchema(): StructType = columnTypes
      override def description(): String = name()
    }

  /** The relation that reads the changes. If Spark has seen its columns already, `seen` has their ids. */
  def toPlan(seen: Option[Seq[Attribute]]): LogicalPlan = {
    val relations = info.groups.map(toRelation)
    if (relations.isEmpty) LocalRelation(seen.getOrElse(SparkInternals.attributes(columnTypes)), Nil)
    else if (info.query.isDefined) {
      val rows = QueryCompiler.compile(session, info.query.get, relations)
      seen.map(_.zip(rows.output).map { case (before, column) => Alias(column, column.name)(before.exprId) }).map(Project(
        _,
        rows)).getOrElse(rows)
    } else {
      val first = relations.head
      val output = seen.map(_.zip(first.output).map { case (before, column) =>
        before.withName(column.name).withNullability(column.nullable).asInstanceOf[AttributeReference]
      })
      val known = first.copy(output = output.getOrElse(first.output))
      if (relations.size == 1) known else Union(known +: relations.tail)
    }
  }

  private def toRelation(group: ChangeGroup): LogicalRelation = {
    val columns = SchemaText.read(info.fileSchema)
    val partitions = HeadwaterTable.partitionSchema(columns, group.partitionColumns)
    val state = TableState(
      path,
      info.version,
      info.tableId,
      group.sizeInBytes,
      rows = None,
      hasDeletionVectors = group.hasDeletionVectors,
      tableSchema = info.tableSchema,
      partitionColumns = group.partitionColumns,
      columnMappingMode = info.columnMappingMode,
      rowTracking = None)
    val format = new HeadwaterParquetFileFormat(state, positionColumn = info.positionColumn)
    val listed = IndexedFiles(session, state, live = false, partitions, store, only = Some(group.files))
    val index = new ChangesFileIndex(listed, info.mostFilesChecked)
    LogicalRelation(new TableRelation(index, partitions, columns, format, store.hadoop)(session))
  }
}

object HeadwaterChangelog {
  private val RangeOptions = Seq("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
  private val Switches = Seq("readChangeFeed", "readChangeData", "readChangelog", "changelogFormat")

  /** Loads the changes of the table at a location from the handler. */
  def load(
      session: SparkSession,
      location: TableLocation,
      bounds: Seq[ChangesBound],
      form: ChangesForm,
      timeTravel: Boolean = false,
      deduplicationMode: Option[String] = None): HeadwaterChangelog = {
    val answer = Bridge.call(session, TableChangesRequest(location.path, bounds, form, timeTravel, deduplicationMode), location)
    new HeadwaterChangelog(session, location.store, answer)
  }

  /** The same, loaded when a query asks for its columns. A stream also opens the table in this way, but reads it in its own. */
  def later(
      session: SparkSession,
      location: TableLocation,
      bounds: Seq[ChangesBound],
      form: ChangesForm,
      timeTravel: Boolean): HeadwaterChangelog =
    new HeadwaterChangelog(
      session,
      location.store,
      Bridge.call(session, TableChangesRequest(location.path, bounds, form, timeTravel, None), location))

  /** The form of the changes that a reader's options ask for; None if they ask for none. The handler checks their values. */
  def asked(session: SparkSession, options: CaseInsensitiveStringMap): Option[ChangesForm] =
    if (!Switches.exists(options.containsKey)) None
    else Bridge.call(session, AsksForChangesRequest(StoreOptions.others(options.asCaseSensitiveMap().asScala.toMap)))

  /** The bounds in a reader's options. */
  def bounds(session: SparkSession, options: CaseInsensitiveStringMap): Seq[ChangesBound] =
    RangeOptions.filter(options.containsKey).map { name =>
      val argument = describe(session, Literal(UTF8String.fromString(options.get(name)), StringType))
      ChangesBound(name, argument.value, argument.micros, inclusive = true)
    }

  /** A bound or another argument: its type, its value as text and, if it can be a time, the microseconds since the epoch. */
  def describe(session: SparkSession, asked: Expression): FunctionArgument = {
    val value = VariableResolver.folded(asked match { case Alias(child, _) => child; case other => other })
    // `timestamp - interval`, for example, can be evaluated only in the form that the optimizer gives it.
    val argument = value.transformUp { case replaceable: RuntimeReplaceable => replaceable.replacement }
    val constant = argument.foldable && argument.deterministic
    val zone = Some(SparkInternals.conf(session).sessionLocalTimeZone)
    def as(kind: DataType) =
      if (constant && Cast.canCast(argument.dataType, kind)) Cast(argument, kind, zone, EvalMode.LEGACY).eval() else null
    val isTime = argument.dataType.typeName.matches("string|date|timestamp.*")
    val elements =
      Option.when(argument.dataType.isInstanceOf[ArrayType])(as(ArrayType(StringType))).flatMap(Option(_)).map(_.asInstanceOf[ArrayData])
    FunctionArgument(
      `type` = argument.dataType.simpleString,
      constant = constant,
      sql = value.sql,
      value = Option(as(StringType)).map(_.toString),
      // Some dates lie beyond the last timestamp.
      micros = Option.when(isTime)(scala.util.Try(as(TimestampType)).getOrElse(null)).flatMap(Option(_)).map(_.toString),
      elements = elements.map(_.toArray[UTF8String](StringType).toSeq.map(String.valueOf(_))))
  }
}
