package headwater.spark.statements

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.{HeadwaterCatalog, HeadwaterException}
import headwater.spark.bridge.{Bridge, TableLocation}
import headwater.spark.bridge.messages.{CatalogEntry, CatalogPartition, ConvertRequest}
import headwater.spark.catalog.{ClonedSource, HeadwaterTable, TableRegistry}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{ResolvedPersistentView, ResolvedTable, ResolvedTempView}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.headwater.SparkInternals

/**
 * Has the handler write the log of a Delta table over the files of another format, then makes the catalog's entry, if there is one, that of
 * a Delta table. If it is cut off between the two, it goes on there when it is run again.
 */
case class ConvertCommand(name: String, target: ConvertCommand.Target, arguments: JsonNode) extends LeafRunnableCommand {
  override def nodeName: String = HeadwaterStatement.words(ConvertedFolder.Command)
  override def simpleString(maxFields: Int): String = s"$nodeName $name"

  override def run(session: SparkSession): Seq[Row] = {
    target match {
      case ConvertCommand.Done =>
      case ConvertCommand.Folder(format, path) => convert(session, TableLocation(TableLocation.path(session, new Path(path))), format, None)
      case source @ ConvertCommand.OfCatalog(registry, entry) =>
        val location = source.location(session)
        convert(session, location, source.format, Some(source.described(session, location)))
        registry.convert(entry)
    }
    Nil
  }

  private def convert(session: SparkSession, location: TableLocation, format: Option[String], entry: Option[CatalogEntry]): Unit = {
    Bridge.call(session, ConvertRequest(location.path, format, entry, arguments), location)
    SparkInternals.refreshCaches(session, location)
  }
}

object ConvertCommand {
  sealed trait Target

  /** A Delta table already. */
  case object Done extends Target
  case class Folder(format: Option[String], path: String) extends Target

  case class OfCatalog(registry: TableRegistry, entry: CatalogTable) extends Target {
    def location(session: SparkSession): TableLocation = TableLocation.of(session, new Path(entry.location), entry.storage.properties)

    /** The format of its files. Hive's own name of Parquet is that of a class. */
    def format: Option[String] =
      if (entry.provider.contains("hive") && entry.storage.serde.exists(_.endsWith(".parquet.serde.ParquetHiveSerDe"))) Some("parquet")
      else entry.provider

    def cloned(session: SparkSession): ClonedSource = {
      val at = location(session)
      ClonedSource(at, Some(entry.identifier.unquotedString), format = format, entry = Some(described(session, at)))
    }

    def described(session: SparkSession, location: TableLocation): CatalogEntry = {
      def partitions = registry.partitions(entry).map { partition =>
        val at = TableLocation.path(session, new Path(partition.location), location.store)
        CatalogPartition(at, partition.spec.view.mapValues(Option(_)).toMap)
      }
      CatalogEntry(
        name = entry.identifier.quotedString,
        schema = SparkInternals.rowSchema(entry.schema),
        partitionColumns = entry.partitionColumnNames,
        properties = entry.properties - "transient_lastDdlTime",
        partitions = Option.when(entry.partitionColumnNames.nonEmpty && entry.tracksPartitionsInCatalog)(partitions))
    }
  }

  def of(session: SparkSession, target: LogicalPlan, arguments: JsonNode): ConvertCommand = {
    def refused(name: String, format: String) =
      HeadwaterException("DELTA_CONVERT_NON_PARQUET_TABLE", "tableId" -> name, "sourceName" -> format)
    target match {
      case ConvertedFolder(format, path) => ConvertCommand(path, Folder(format, path), arguments)
      case view: ResolvedPersistentView => throw refused(view.identifier.toString, "a view")
      case view: ResolvedTempView => throw refused(view.identifier.toString, "a view")
      case ResolvedTable(catalog, ident, table, _) => (catalog, table) match {
          case (_, table: HeadwaterTable) => ConvertCommand(table.name(), Done, arguments)
          case (catalog: HeadwaterCatalog, other) => SparkInternals.catalogTable(other) match {
              case Some(entry) if entry.tableType == CatalogTableType.VIEW => throw refused(ident.toString, "a view")
              case Some(entry) if catalog.tables.converts =>
                ConvertCommand(entry.identifier.unquotedString, OfCatalog(catalog.tables, entry), arguments)
              case _ => throw refused(ident.toString, "a table of another catalog")
            }
          case _ => throw refused(ident.toString, "a table of another catalog")
        }
      case other => throw refused(other.nodeName, "no table")
    }
  }
}
