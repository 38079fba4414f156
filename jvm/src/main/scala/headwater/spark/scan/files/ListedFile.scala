package headwater.spark.scan.files

import headwater.spark.scan.rows.{DeletionVector, FileRowIds}
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata

/**
 * A data file of a scan. Its path is that of the log, plain on the local file system; users see it with its scheme (`_metadata.file_path`,
 * `input_file_name()`). `deletionVector` says where the task finds the file's deletion vector ([[DeletionVector.MetadataKey]]); it may be
 * null.
 */
final case class ListedFile(
    path: String,
    size: Long,
    modificationTime: Long,
    partitionValues: Seq[String],
    deletionVector: String,
    rowIds: Option[FileRowIds] = None) {

  /** Whether it has a deletion vector. */
  def isMarked: Boolean = deletionVector != null

  def toStatus: FileStatusWithMetadata = {
    val status = new FileStatus(size, false, 1, 0, modificationTime, new Path(if (path.startsWith("/")) s"file:$path" else path))
    FileStatusWithMetadata(
      status,
      Option(deletionVector).map(DeletionVector.MetadataKey -> _).toMap ++ rowIds.map(FileRowIds.MetadataKey -> _))
  }
}
