package headwater.spark.scan

import scala.collection.mutable

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.ScanRequest
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.datasources.{FileIndex, FileStatusWithMetadata, PartitionDirectory}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/**
 * Lists a table's files for a scan. The handler prunes conservatively; partition filters are applied exactly here, because Spark does not
 * evaluate them again.
 *
 * A `live` index follows the table's latest version. [[PinSnapshots]] replaces it, once per query, with one of a fixed version.
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

  /** In which partitions, given by the text of their values, a condition is true; None if it needs more than partition columns. */
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
    // Spark takes a file's number for one more partition column, after the others.
    if (i < 0) BoundReference(partitionSchema.length, a.dataType, nullable = false)
    else BoundReference(i, SparkInternals.attributes(partitionSchema)(i).dataType, nullable = true)
  }

  private def parsers: Seq[PartitionValueParser] =
    partitionSchema.map(field => new PartitionValueParser(field.dataType, SparkInternals.conf(session).sessionLocalTimeZone))

  private def row(values: Seq[String], casts: Seq[PartitionValueParser], number: Option[Int] = None): InternalRow =
    InternalRow.fromSeq(values.zip(casts).map { case (v, parser) => parser.parse(v) } ++ number)

  private def scan(filters: Seq[Expression]): Iterator[ListedFile] = {
    val answer = Bridge.call(session, ScanRequest(path, state.version, state.tableId, filters.map(PredicateTree.of)))
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
