package headwater.spark.scan.tables

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.datasources.{FileFormat, HadoopFsRelation}
import org.apache.spark.sql.types.StructType

/**
 * The relation of a table that a query reads. `saveAsTable` in mode overwrite with another format drops the table of that name before it
 * runs the query, unless the query reads an equal relation. To that question alone, any two of one place are equal, whatever became of the
 * table since the query was analysed: it would be lost, with the rows that are to be saved.
 */
final class TableRelation(
    index: HeadwaterFileIndex,
    partitionSchema: StructType,
    dataSchema: StructType,
    format: FileFormat,
    options: Map[String, String])(session: SparkSession)
    extends HadoopFsRelation(index, partitionSchema, dataSchema, None, format, options)(session) {

  override def equals(other: Any): Boolean = super.equals(other) ||
    (other match {
      case HadoopFsRelation(that: HeadwaterFileIndex, _, _, _, _, _) => that.path == index.path && TableRelation.decidesOnDrop
      case _ => false
    })

  override def hashCode(): Int = super.hashCode()
}

object TableRelation {
  /** Where Spark compares: in its command, and in Spark 4.0 in the writer itself. */
  private val Asking = Set(".SaveAsV1TableCommand", ".DataFrameWriter")

  /** Whether it is asked by what would drop the table, and not by a plan that is run below that. */
  private def decidesOnDrop: Boolean = StackWalker.getInstance().walk[Boolean](frames =>
    frames.map[String](_.getClassName).filter(name => !name.startsWith("scala.") && !name.startsWith(getClass.getName.stripSuffix("$")))
      .findFirst().filter(name => Asking.exists(name.endsWith)).isPresent)
}
