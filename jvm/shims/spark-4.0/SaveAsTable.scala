package headwater.spark.shims

import org.apache.spark.sql.classic.DataFrameWriter
import org.apache.spark.sql.connector.catalog.TableProvider

/** A source that `saveAsTable` in mode overwrite tells from REPLACE TABLE … AS SELECT. This Spark plans both alike and marks neither. */
trait SaveAsTable extends TableProvider

object SaveAsTable {
  /** Whether a table's rows come from `saveAsTable` in mode overwrite: its writer is then on the stack. `mode` is how the table is made. */
  def overwrites(mode: String, options: Map[String, String]): Boolean =
    mode == "create_or_replace" &&
      StackWalker.getInstance().walk[Boolean](_.anyMatch(_.getClassName == classOf[DataFrameWriter[_]].getName))
}
