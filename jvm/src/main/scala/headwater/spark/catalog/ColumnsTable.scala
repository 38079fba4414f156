package headwater.spark.catalog

import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** A table that has columns, from which Spark 4.0 does not make the schema by itself. */
trait ColumnsTable extends Table {
  override def schema(): StructType = SparkInternals.declaredSchema(columns())
}
