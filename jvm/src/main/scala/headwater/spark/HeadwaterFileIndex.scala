package headwater.spark

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.datasources.{FileIndex, FileStatusWithMetadata, PartitionDirectory}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Lists a table's files for a scan: the handler prunes, conservatively, and partition filters are applied exactly here, as Spark drops them
 * after the scan.
 *
 * A live index belongs to a relation that follows the table; [[PinSnapshots]] fixes its version once per query.
 */
class HeadwaterFileIndex(
    val session: SparkSession,
    val path: String,
    val state: TableState,
    val live: Boolean,
    override val partitionSchema: StructType,
    val options: Map[String, String],
    only: Option[JsonNode] = None,
    numbersFiles: Boolean = false)
    extends FileIndex {

  def isWholeTable: Boolean = only.isEmpty

  override def rootPaths: Seq[Path] = Seq(new Path(path))

  override def sizeInBytes: Long = state.sizeInBytes

  override def refresh(): Unit = {}

  override def inputFiles: Array[String] =
    listFiles(Nil, Nil).flatMap(_.files).map(f => org.apache.spark.paths.SparkPath.fromPath(f.getPath).urlEncoded).toArray

  def pinned(state: TableState): HeadwaterFileIndex =
    new HeadwaterFileIndex(session, path, state, live = false, partitionSchema, options, only, numbersFiles)

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val files = only.map(FileList.fromJson(_, partitionSchema.length)).getOrElse(scan(partitionFilters ++ dataFilters))
    val predicate = partitionFilters.reduceOption(And).map(filter => Predicate.createInterpreted(bound(filter)))
    val casts = parsers
    val groups = mutable.LinkedHashMap.empty[(Seq[String], Option[Int]), mutable.ArrayBuffer[FileStatusWithMetadata]]
    files.zipWithIndex.foreach { case (file, number) =>
      groups.getOrElseUpdate((file.partitionValues, Option.when(numbersFiles)(number)), mutable.ArrayBuffer.empty) += file.toStatus
    }
    groups.iterator.map { case ((values, number), statuses) => PartitionDirectory(row(values, casts, number), statuses.toSeq) }
      .filter(directory => predicate.forall(_.eval(directory.values))).toSeq
  }

  /** In which partitions, given by their texts, a condition is true; None where it is about more than partition values. */
  def matching(condition: Expression, partitions: Seq[Seq[String]]): Option[Seq[Boolean]] = {
    val plain = FilterText.unfolded(condition)
    val columns = partitionSchema.fieldNames.map(_.toLowerCase).toSet
    val evaluable = plain.deterministic && plain.references.forall(a => columns(a.name.toLowerCase)) &&
      !plain.exists { case _: AttributeReference => false; case e => e.isInstanceOf[Unevaluable] || e.isInstanceOf[PlanExpression[_]] }
    Option.when(evaluable) {
      val predicate = Predicate.createInterpreted(bound(plain))
      val casts = parsers
      partitions.map(values => predicate.eval(row(values, casts)))
    }
  }

  private def bound(filter: Expression): Expression = filter.transform { case a: AttributeReference =>
    val i = partitionSchema.fieldNames.indexWhere(_.equalsIgnoreCase(a.name))
    // A file's number, which Spark takes for one more partition column, comes after the others.
    if (i < 0) BoundReference(partitionSchema.length, a.dataType, nullable = false)
    else BoundReference(i, SparkInternals.attributes(partitionSchema)(i).dataType, nullable = true)
  }

  private def parsers: Seq[PartitionValueParser] =
    partitionSchema.map(field => new PartitionValueParser(field.dataType, SparkInternals.conf(session).sessionLocalTimeZone))

  private def row(values: Seq[String], casts: Seq[PartitionValueParser], number: Option[Int] = None): InternalRow =
    InternalRow.fromSeq(values.zip(casts).map { case (v, parser) => parser.parse(v) } ++ number)

  private def scan(filters: Seq[Expression]): Iterator[ListedFile] = {
    val answer = Bridge.call(
      new StatementContext(session), "scan",
      "table" -> path,
      "version" -> state.version,
      "tableId" -> state.tableId,
      "filters" -> filters.flatMap(FilterText.inUtc))
    FileList.fromAnswer(answer, partitionSchema.length)
  }

  override def equals(other: Any): Boolean = other match {
    case that: HeadwaterFileIndex =>
      path == that.path && state.tableId == that.state.tableId && live == that.live && (live || state.version == that.state.version) &&
        onlyFiles == that.onlyFiles
    case _ => false
  }

  private def onlyFiles: Option[JsonNode] = only

  override def hashCode(): Int = path.hashCode

  override def toString: String = s"HeadwaterFileIndex($path, version ${state.version})"
}

/** Partition values are text in the log; each distinct text is cast once, as Spark casts. */
private final class PartitionValueParser(dataType: DataType, timeZone: String) {
  private val parsed = mutable.HashMap.empty[String, Any]

  def parse(text: String): Any =
    if (text == null) null
    else parsed.getOrElseUpdate(text, Cast(Literal(UTF8String.fromString(text), StringType), dataType, Some(timeZone), EvalMode.LEGACY).eval())
}

/** A data file of a scan. `deletionVector` describes where the executor finds its deleted positions, or is null. */
final case class ListedFile(
    path: String, size: Long, modificationTime: Long, partitionValues: Seq[String], deletionVector: String) {
  def toStatus: FileStatusWithMetadata = {
    val status = new FileStatus(size, false, 1, 0, modificationTime, new Path(path))
    FileStatusWithMetadata(status, Option(deletionVector).map(DeletionVectors.MetadataKey -> _).toMap)
  }
}

object FileList {
  /** `[path, size, modificationTime, deletionVector | null, partition value, ...]` a file. */
  def fromJson(files: JsonNode, partitionColumns: Int): Iterator[ListedFile] =
    files.elements().asScala.map { file =>
      ListedFile(
        file.get(0).asText(),
        file.get(1).asLong(),
        file.get(2).asLong(),
        (0 until partitionColumns).map(i => Json.text(file.get(4 + i))),
        Json.text(file.get(3)))
    }

  def fromAnswer(answer: JsonNode, partitionColumns: Int): Iterator[ListedFile] =
    if (answer.has("arrow")) ArrowFileList.read(answer.get("arrow").asText(), partitionColumns)
    else fromJson(answer.get("files"), partitionColumns)
}

/** A column whose text is always quoted: Spark leaves quotes out around names such as `true`, which then read as something else. */
private case class QuotedColumn(name: String, dataType: DataType) extends LeafExpression with Unevaluable {
  override def nullable: Boolean = true
  override def sql: String = "`" + name.replace("`", "``") + "`"
}

/** A filter as Spark SQL text over bare column names; none where a part cannot be written as SQL. */
object FilterText {
  /** With timestamp literals in UTC. */
  def inUtc(filter: Expression): Option[String] = {
    val conf = SQLConf.get.clone()
    conf.setConfString(SQLConf.SESSION_LOCAL_TIMEZONE.key, "UTC")
    SQLConf.withExistingConf(conf)(of(filter))
  }

  /** With timestamp literals in the session's time zone, as its user would write them. */
  def of(filter: Expression): Option[String] =
    if (filter.exists(e => e.isInstanceOf[PlanExpression[_]] || e.isInstanceOf[LambdaFunction] || !e.deterministic)) None
    else try Some(unfolded(filter).transform { case a: AttributeReference => QuotedColumn(a.name, a.dataType) }.sql) catch { case NonFatal(_) => None }

  /** What functions such as BETWEEN stand for. They keep what they were called with beside it, whose columns nobody else sees. */
  def unfolded(e: Expression): Expression = e match {
    case function: RuntimeReplaceable => unfolded(function.replacement)
    case With(child, definitions) =>
      unfolded(child.transform { case ref: CommonExpressionRef => definitions.find(_.id == ref.id).map(_.child).getOrElse(ref) })
    case other => other.mapChildren(unfolded)
  }
}
