package headwater.spark.scan.tables

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.StoreOptions
import headwater.spark.catalog.HeadwaterTable
import headwater.spark.scan.files.{ListedFile, PrunedFiles}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat
import org.apache.spark.sql.types.StructType

/**
 * What a [[HeadwaterFileIndex]] lists: the files of a version of a table, or some of them.
 *
 * @param live whether the version is the table's latest, whatever that is when a query runs
 * @param store what the user has given to reach the table
 * @param only the files to list, if not those of the version
 * @param numbersFiles whether each file's number among them is a partition column more
 * @param valuesPrune whether these are files of the version, of which the values of joins and subqueries may leave some out
 * @param pruned those that filters leave
 * @param analyzed what ANALYZE TABLE stored about the columns
 * @param marked whether the files that are listed have deletion vectors; if not given, both kinds are
 * @param readBy the transaction that a query reads it in, with a number; if none is given, that of its session, with the version
 */
final case class IndexedFiles(
    session: SparkSession,
    state: TableState,
    live: Boolean,
    partitionSchema: StructType,
    store: StoreOptions,
    only: Option[JsonNode] = None,
    numbersFiles: Boolean = false,
    valuesPrune: Boolean = false,
    pruned: Option[PrunedFiles] = None,
    analyzed: Map[String, CatalogColumnStat] = Map.empty,
    marked: Option[Boolean] = None,
    readBy: Option[Option[(String, Long)]] = None) {

  def keeps(file: ListedFile): Boolean = marked.forall(_ == file.isMarked)
}

object IndexedFiles {
  def of(table: HeadwaterTable, live: Boolean): IndexedFiles =
    IndexedFiles(table.session, TableState.of(table), live, table.partitionSchema, table.store)
}
