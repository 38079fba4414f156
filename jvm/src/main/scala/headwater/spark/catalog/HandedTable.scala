package headwater.spark.catalog

import headwater.spark.bridge.TableLocation
import headwater.spark.scan.tables.HeadwaterFileIndex
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.headwater.SparkInternals

/**
 * A table that the API hands to a statement with options, which are credentials mostly and may not be in its text: the text names
 * ``delta.`/__headwater_table_…` ``, and the temporary view of that name reads the table with the options.
 */
object HandedTable {
  private val Prefix = "/__headwater_table_"

  /** The location of the table that a name stands for. */
  def find(session: SparkSession, name: String): Option[TableLocation] =
    if (!name.startsWith(Prefix)) None
    else SparkInternals.temporaryView(session, name.drop(1)).flatMap(_.collectFirst {
      case HeadwaterFileIndex.Of(index) => index.tableLocation
    })
}
