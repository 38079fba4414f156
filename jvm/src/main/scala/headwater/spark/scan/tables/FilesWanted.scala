package headwater.spark.scan.tables

import headwater.spark.scan.filters.PredicateTree
import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.messages.{ScanOrder, ScanRequest}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionDirectory}
import org.apache.spark.sql.types.StructType

/**
 * The files of a pinned table that a query needs, which the handler has not been asked for yet. It stands for the index of a relation until
 * the needs of all relations are known, and lists what that does.
 *
 * @param columns of which statistics are wanted, if any are
 * @param limit of how many rows that meet the filters the files are listed; all if not given
 * @param order by what these are the first ones; any if not given
 */
final class FilesWanted(
    val index: HeadwaterFileIndex,
    val filters: Seq[Expression],
    columns: Option[Seq[String]] = None,
    limit: Option[Int] = None,
    order: Option[ScanOrder] = None)
    extends FileIndex {
  private[scan] val trees: Seq[JsonNode] = filters.map(PredicateTree.of)

  private[scan] def request: ScanRequest =
    ScanRequest(index.path, index.state.version, Some(index.state.tableId), trees, columns, limit, order)

  override def rootPaths: Seq[Path] = index.rootPaths

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] =
    index.listFiles(partitionFilters, dataFilters)

  override def inputFiles: Array[String] = index.inputFiles

  override def refresh(): Unit = {}

  override def sizeInBytes: Long = index.sizeInBytes

  override def partitionSchema: StructType = index.partitionSchema
}
