package headwater.spark.catalog

import java.util.Collections

import scala.util.control.NonFatal

import headwater.spark.bridge.{Bridge, TableLocation}
import headwater.spark.bridge.messages.{CreatedTable, CreatedTableRequest}
import headwater.spark.shims.NewTable
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType}
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** Tables that the session's open transaction creates. The session catalog has no entry of them before COMMIT. */
final class CreatedTables private (session: SparkSession, registry: TableRegistry) extends Logging {
  /** What will be the entry of a table; None where the transaction creates none of this name. */
  def find(ident: Identifier): Option[CatalogTable] =
    if (SparkInternals.transaction(session).isEmpty || !registry.converts) None
    else {
      val found = Bridge.call(session, CreatedTableRequest(CreatedTables.parts(ident)))
      found.table.map(entry(ident, _, found))
    }

  def isTaken(created: CreatedTable): Boolean = registry.find(CreatedTables.identifier(created)).isDefined

  /** Makes the entry of a table, which is there now; the reason where that fails. */
  def register(created: CreatedTable): Option[String] =
    try {
      val ident = CreatedTables.identifier(created)
      val location = TableLocation(created.table.get)
      val made = entry(ident, location.path, created)
      def found = HeadwaterTable.load(session, location, catalogTable = Some(made))
      registry.add(made, ident, NewTable(Array.empty, Array.empty, Collections.emptyMap[String, String]), found)
      None
    } catch {
      case NonFatal(e) =>
        logWarning(s"the catalog has no entry of ${created.identifier.mkString(".")}", e)
        Some(Option(e.getMessage).getOrElse(e.getClass.getSimpleName))
    }

  private def entry(ident: Identifier, path: String, created: CreatedTable): CatalogTable = CatalogTable(
    identifier = registry.identifier(ident),
    tableType = if (created.external) CatalogTableType.EXTERNAL else CatalogTableType.MANAGED,
    storage = CatalogStorageFormat.empty.copy(locationUri = Some(TableLocation.qualified(session, new Path(path)).toUri)),
    schema = new StructType,
    provider = Some("delta"),
    comment = created.comment)
}

object CreatedTables {
  /** Those of the session catalog, which is the only one whose tables a transaction creates. */
  def apply(session: SparkSession): CreatedTables = apply(session, TableRegistry.ofSession(session))

  def apply(session: SparkSession, registry: TableRegistry): CreatedTables = new CreatedTables(session, registry)

  def parts(ident: Identifier): Seq[String] = ident.namespace().toSeq :+ ident.name()

  private def identifier(created: CreatedTable): Identifier = Identifier.of(created.identifier.init.toArray, created.identifier.last)
}
