package headwater.spark.catalog

import java.util.Locale

import headwater.spark.HeadwaterException

/** The errors of statements that their table is not fit for, where several places raise them. */
object Refusals {
  /** A change of an older version. */
  def oldVersion(path: String): HeadwaterException = HeadwaterException("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED", "path" -> path)

  /** A statement about an entry of the catalog, on a table that is only a path. */
  def forPath(path: String, operation: String): HeadwaterException =
    if (operation.endsWith("SET LOCATION")) HeadwaterException("DELTA_CANNOT_SET_LOCATION_ON_PATH_IDENTIFIER", "path" -> path)
    else {
      val hint =
        if (operation == "DROP TABLE") "To remove the data, delete the directory."
        else s"Run CREATE TABLE <name> USING delta LOCATION '$path' first, then use that name."
      HeadwaterException("DELTA_OPERATION_ON_PATH_NOT_ALLOWED", "operation" -> operation, "path" -> path, "hint" -> hint)
    }

  /** What Delta Lake's documentation calls a table that is not a Delta table, by statement. */
  private val NotDelta = Map(
    "REORG" -> "DELTA_NOT_A_DELTA_TABLE",
    "SYNC IDENTITY" -> "DELTA_IDENTITY_COLUMNS_ALTER_NON_DELTA_FORMAT",
    "READING CHANGES" -> "DELTA_TABLE_ONLY_OPERATION")

  /** A statement of Delta tables on another table. */
  def notDelta(name: String, command: String): HeadwaterException = {
    val operation = command.replace("_", " ").toUpperCase(Locale.ROOT)
    HeadwaterException(
      NotDelta.getOrElse(operation, "DELTA_ONLY_OPERATION"),
      "operation" -> operation,
      "tableName" -> name,
      "provider" -> "",
      "hint" -> "Name a Delta table.")
  }

  /** The same of a path where there is nothing, in quotes and after `delta.`. */
  private val MissingQuoted = Map("DESCRIBE DETAIL" -> "DELTA_FILE_NOT_FOUND") ++
    Seq("DESCRIBE HISTORY", "OPTIMIZE", "VACUUM").map(_ -> "DELTA_TABLE_ONLY_OPERATION")
  private val Missing = Map("DESCRIBE HISTORY" -> "DELTA_TABLE_ONLY_OPERATION", "REORG" -> "DELTA_ONLY_OPERATION")

  /** A statement about the table at a path where there is nothing. */
  def nothingAtPath(path: String, command: String, quoted: Boolean): HeadwaterException = HeadwaterException(
    (if (quoted) MissingQuoted else Missing).getOrElse(command, "DELTA_MISSING_DELTA_TABLE"),
    "operation" -> command,
    "tableName" -> path,
    "path" -> path)
}
