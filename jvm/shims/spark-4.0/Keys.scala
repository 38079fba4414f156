package headwater.spark.shims

import headwater.spark.bridge.messages.TableConstraint
import org.apache.spark.sql.connector.catalog.Table

/** A table with keys, which this Spark does not know: SHOW CREATE TABLE and SHOW TBLPROPERTIES show them. */
trait Keys extends Table {
  protected def keys: Seq[TableConstraint]
}
