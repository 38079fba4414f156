package headwater.spark.shims

import org.apache.spark.sql.connector.catalog.SupportsV1OverwriteWithSaveAsTable

/** A source that `saveAsTable` in mode overwrite tells from REPLACE TABLE … AS SELECT. */
trait SaveAsTable extends SupportsV1OverwriteWithSaveAsTable

object SaveAsTable {
  /** Whether a table's rows come from `saveAsTable` in mode overwrite. `mode` is how the table is made. */
  def overwrites(mode: String, options: Map[String, String]): Boolean =
    options.get(SupportsV1OverwriteWithSaveAsTable.OPTION_NAME).contains("true")
}
