package headwater.spark.streaming

import java.util
import java.util.Optional

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.{Bridge, SchemaText, StoreOptions, TableLocation}
import headwater.spark.bridge.messages.{
  OpenStreamRequest, StreamChangesRequest, StreamCommittedRequest, StreamConditionRequest, StreamDescription, StreamEndAnswer,
  StreamEndRequest
}
import headwater.spark.catalog.{HeadwaterTable, TableVersion}
import headwater.spark.changes.HeadwaterChangelog
import headwater.spark.scan.tables.{IndexedFiles, TableState}
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.connector.read.streaming.{
  CompositeReadLimit, Offset => AnyOffset, ReadLimit, ReadMaxBytes, ReadMaxFiles, ReportsSourceMetrics, SupportsAdmissionControl,
  SupportsTriggerAvailableNow
}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.streaming.{Offset, Source}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A table as the source of one stream. The handler decides what a micro-batch reads; this keeps what the stream has known since its start.
 */
class HeadwaterSource(session: SparkSession, store: StoreOptions, options: Map[String, String], info: StreamDescription)
    extends Source
    with SupportsAdmissionControl
    with SupportsTriggerAvailableNow
    with ReportsSourceMetrics {

  private val table = new HeadwaterTable(session, info.table.path, TableVersion(info.table.version), None, info.table, store)
  private var endsWithAvailable = false
  /** What there was to read when a query that ends with it looked first; None before it did. */
  private var available: Option[Option[String]] = None
  @volatile private var last: Option[StreamEndAnswer] = None

  override lazy val schema: StructType = SchemaText.read(info.schema)

  override def getDefaultReadLimit: ReadLimit = HeadwaterSource.limit(info)

  override def prepareForTriggerAvailableNow(): Unit = endsWithAvailable = true

  override def getOffset: Option[Offset] = throw new UnsupportedOperationException("Spark asks for latestOffset")

  override def latestOffset(start: AnyOffset, limit: ReadLimit): AnyOffset = {
    val after = Option(start).map(_.json)
    if (endsWithAvailable && available.isEmpty) available =
      Some(end(after, ReadLimit.allAvailable(), None, looksAhead = true).offset)
    val answer = end(after, limit, available.flatten, looksAhead = false)
    last = Some(answer)
    answer.offset.map(HeadwaterOffset(_)).orNull
  }

  private def end(after: Option[String], limit: ReadLimit, until: Option[String], looksAhead: Boolean): StreamEndAnswer = {
    val limits = limit match {
      case composite: CompositeReadLimit => composite.getReadLimits.toSeq
      case one => Seq(one)
    }
    Bridge.call(
      session,
      StreamEndRequest(
        info.stream,
        after,
        limits.collectFirst { case files: ReadMaxFiles => files.maxFiles().toLong },
        limits.collectFirst { case bytes: ReadMaxBytes => bytes.maxBytes() },
        until,
        looksAhead),
      table.location)
  }

  override def getBatch(start: Option[Offset], end: Offset): DataFrame = {
    val read = if (info.readsChanges) changes(start, end) else files(start, end)
    val rows = SparkInternals.ofRows(
      session,
      read.transform {
        case relation: LogicalRelation => relation.copy(isStreaming = true, output = relation.output.map(asDeclared))
        case none: LocalRelation => none.copy(isStreaming = true)
      })
    condition(start, end).map(rows.where).getOrElse(rows)
  }

  /** A column as the stream declares it: the state of a query keeps whether its keys may be null, and refuses keys that differ in that. */
  private def asDeclared(column: AttributeReference): AttributeReference =
    schema.find(_.name == column.name).fold(column)(field => column.withNullability(field.nullable).asInstanceOf[AttributeReference])

  private def condition(start: Option[Offset], end: Offset): Option[String] =
    if (!info.hasConditions) None
    else Bridge.call(session, StreamConditionRequest(info.stream, start.map(_.json), end.json), table.location).condition

  private def files(start: Option[Offset], end: Offset): LogicalPlan = {
    // After a restart, Spark asks for micro-batches that were planned before it.
    val size = last.filter(_.offset.contains(end.json)).map(_.sizeInBytes).getOrElse(info.table.sizeInBytes)
    val state = TableState.of(table).copy(sizeInBytes = size, hasDeletionVectors = true)
    val listed = IndexedFiles(session, state, live = false, table.partitionSchema, store)
    val index = new StreamFileIndex(listed, info.stream, start.map(_.json), end.json)
    table.relationOver(index, StoreOptions.others(options))
  }

  private def changes(start: Option[Offset], end: Offset): LogicalPlan = {
    val answer = Bridge.call(session, StreamChangesRequest(info.stream, start.map(_.json), end.json), table.location)
    new HeadwaterChangelog(session, store, answer).toPlan(None)
  }

  override def commit(end: Offset): Unit =
    if (info.notesEnds) Bridge.call(session, StreamCommittedRequest(info.stream, end.json), table.location)

  override def metrics(latestConsumed: Optional[AnyOffset]): util.Map[String, String] =
    last.map(_.metrics).getOrElse(Map.empty[String, String]).asJava

  override def stop(): Unit = {}

  override def toString: String = s"HeadwaterSource[${table.path}]"
}

object HeadwaterSource {
  /** Asks the handler for a table as a source. */
  def describe(
      session: SparkSession,
      location: TableLocation,
      options: Map[String, String],
      schema: Option[StructType],
      checkpoint: Option[String]): StreamDescription = {
    val bounds = HeadwaterChangelog.bounds(session, new CaseInsensitiveStringMap(options.asJava))
    // The stream's own files are the session's.
    val others = (checkpoint ++ Seq("schemaTrackingLocation", "schemaLocation").flatMap(options.get)).map(TableLocation(_)).toSeq
    val request = OpenStreamRequest(location.path, StoreOptions.others(options), bounds, schema.map(SparkInternals.rowSchema), checkpoint)
    Bridge.call(session, request, location +: others: _*)
  }

  /** What a query may read beside the stream's columns. Changes have no such columns. */
  def metadataColumns(info: StreamDescription): Seq[AttributeReference] = if (info.readsChanges) Nil
  else {
    val format = new HeadwaterParquetFileFormat(TableState.of(info.table))
    Seq(format.createFileMetadataCol())
  }

  private def limit(info: StreamDescription): ReadLimit = {
    val limits = info.maxFiles.map(files => ReadLimit.maxFiles(files.toInt)) ++ info.maxBytes.map(ReadLimit.maxBytes)
    if (limits.size > 1) ReadLimit.compositeLimit(limits.toArray) else limits.headOption.getOrElse(ReadLimit.allAvailable())
  }
}
