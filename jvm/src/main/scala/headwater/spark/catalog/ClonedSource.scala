package headwater.spark.catalog

import headwater.spark.bridge.TableLocation
import headwater.spark.bridge.messages.CatalogEntry
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.catalog.Column
import org.apache.spark.sql.connector.expressions.Transform

/**
 * What a clone is made of.
 *
 * @param name as the clone's history shows it; None for a path
 * @param columns and `partitioning`: empty where they are known once the clone is made
 * @param version of a Delta table, where its path names one
 * @param format of files that are no Delta table; `entry` is what the catalog has of them, if it knows them
 */
final case class ClonedSource(
    location: TableLocation,
    name: Option[String],
    columns: Array[Column] = Array.empty,
    partitioning: Array[Transform] = Array.empty,
    version: Option[Long] = None,
    format: Option[String] = None,
    entry: Option[CatalogEntry] = None) {
  def words: String = name.getOrElse(location.path)
}

object ClonedSource {
  def of(table: HeadwaterTable): ClonedSource = ClonedSource(
    table.location,
    table.catalogTable.map(_.identifier.unquotedString),
    table.columns(),
    table.partitioning(),
    version = Option.unless(table.asked.isLatest)(table.snapshotVersion))

  def of(session: SparkSession, format: String, path: String): ClonedSource =
    ClonedSource(TableLocation(TableLocation.path(session, new Path(path))), None, format = Some(format))
}
