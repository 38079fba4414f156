package headwater.spark.shims

import org.apache.spark.sql.connector.catalog.SupportsV1OverwriteWithSaveAsTable

/** A source that `saveAsTable` in mode overwrite tells from REPLACE TABLE … AS SELECT. */
trait SaveAsTable extends SupportsV1OverwriteWithSaveAsTable

object SaveAsTable {
  /** Whether a staged table's rows come from `saveAsTable` in mode overwrite. */
  def overwrites(options: Map[String, String]): Boolean = options.get(SupportsV1OverwriteWithSaveAsTable.OPTION_NAME).contains("true")
}
