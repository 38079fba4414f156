package headwater.spark.changes

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.{Bridge, StatementContext}
import headwater.spark.scan.{DeletionVector, HeadwaterFileIndex, TableState}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.datasources.PartitionDirectory
import org.apache.spark.sql.types.StructType

/** The files of a range of changes, which are all known; those a scan needs are looked for first. */
private class ChangesFileIndex(session: SparkSession, path: String, state: TableState, partitionSchema: StructType, files: JsonNode)
    extends HeadwaterFileIndex(session, path, state, live = false, partitionSchema, Map.empty, Some(files)) {

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val listed = super.listFiles(partitionFilters, dataFilters)
    val version = partitionSchema.length - 2
    val needed = for (directory <- listed; file <- directory.files)
      yield Seq[Any](directory.values.getLong(version), text(file.getPath), file.metadata.get(DeletionVector.MetadataKey))
    if (needed.size <= ChangesFileIndex.MostLookedFor) Bridge.call(new StatementContext(session), "check_change_files", "table" -> path, "files" -> needed)
    listed
  }

  private def text(path: Path): String = if (path.toUri.getScheme == null) path.toUri.getPath else path.toString

  override def toString: String = s"HeadwaterChanges($path, up to version ${state.version})"
}

private object ChangesFileIndex {
  /** To look for more files than this takes longer than to meet the one that is gone. */
  val MostLookedFor = 4000
}
