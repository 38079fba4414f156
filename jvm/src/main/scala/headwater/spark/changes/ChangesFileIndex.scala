package headwater.spark.changes

import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.{ChangeFile, CheckChangeFilesRequest}
import headwater.spark.scan.rows.DeletionVector
import headwater.spark.scan.tables.{HeadwaterFileIndex, IndexedFiles}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.datasources.PartitionDirectory

/**
 * The files of a range of changes. The handler has listed them already; before a scan reads them, it checks that they still exist.
 *
 * @param mostFilesChecked a scan of more files starts without that check
 */
private class ChangesFileIndex(indexed: IndexedFiles, mostFilesChecked: Int) extends HeadwaterFileIndex(indexed) {

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val listed = super.listFiles(partitionFilters, dataFilters)
    val version = partitionSchema.length - 2
    val needed = for (directory <- listed; file <- directory.files)
      yield ChangeFile(directory.values.getLong(version), text(file.getPath), file.metadata.get(DeletionVector.MetadataKey).map(_.toString))
    if (needed.size <= mostFilesChecked) Bridge.call(session, CheckChangeFilesRequest(path, needed), tableLocation)
    listed
  }

  private def text(path: Path): String = if (path.toUri.getScheme == "file") path.toUri.getPath else path.toString

  override def toString: String = s"HeadwaterChanges($path, up to version ${state.version})"
}
