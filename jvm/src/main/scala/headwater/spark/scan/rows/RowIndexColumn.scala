package headwater.spark.scan.rows

import java.util.Locale

import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.types.StructType

/** Spark's reader identifies the column for the positions of rows by its name, which a column of a file may have too. */
object RowIndexColumn {
  val Spark: String = ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME

  /**
   * Gives the column for positions the name that Spark's reader knows, and that a query of `_metadata.row_index` uses. If the table has a
   * column of that name (`taken`), the name stands for the files' own column; Spark's reader finds it in capitals.
   */
  def rename(schema: StructType, position: Option[String], taken: Boolean): StructType = StructType(schema.map { field =>
    if (position.contains(field.name)) field.copy(name = Spark)
    else if (taken && field.name == Spark) field.copy(name = Spark.toUpperCase(Locale.ROOT))
    else field
  })
}
