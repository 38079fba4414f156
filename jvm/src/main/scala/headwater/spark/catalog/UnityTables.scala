package headwater.spark.catalog

import java.util

import headwater.spark.HeadwaterException
import headwater.spark.bridge.{Bridge, TableLocation}
import headwater.spark.bridge.messages._
import headwater.spark.shims.{NewTable, StagingShim}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{NoSuchFunctionException, NoSuchNamespaceException, NoSuchTableException}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * The entries of a catalog of Unity Catalog: where its tables are, and what they are reached with. The handler asks the server.
 *
 * @param others a catalog of the same server that has what is no Delta table: tables of other formats, and schemas to be made
 */
final class UnityTables(named: String, others: Option[TableCatalog with SupportsNamespaces] = None) extends CatalogDefaults {
  private def session: SparkSession = {
    val active = SparkSession.active
    Extension.require(active)
    active
  }

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = {}

  override def name(): String = named

  override def defaultNamespace(): Array[String] = Array("default")

  // --- tables ----------------------------------------------------------------------------------------------------------------------

  override def listTables(namespace: Array[String]): Array[Identifier] =
    others.map(_.listTables(namespace)).getOrElse(names(Some(schemaOf(namespace))).map(Identifier.of(namespace, _)).toArray)

  def find(ident: Identifier): Option[UnityEntry] =
    if (ident.namespace().length != 1) None
    else entry(Bridge.call(session, FindInCatalogRequest(named, ident.namespace()(0), ident.name(), others.isDefined)), ident)

  private def entry(found: FoundInCatalog, ident: Identifier): Option[UnityEntry] =
    found.location.map(new UnityEntry(ident, _, found.managed, found.comment, found.options))

  override def loadTable(ident: Identifier): Table =
    find(ident).getOrElse(others.map(_.loadTable(ident)).getOrElse(throw new NoSuchTableException(ident)))

  override def tableExists(ident: Identifier): Boolean = find(ident).isDefined || others.exists(_.tableExists(ident))

  /** A place for a new table that the catalog will manage. */
  def place(ident: Identifier): TableLocation = {
    val staged = entry(Bridge.call(session, StageInCatalogRequest(named, schemaOf(ident.namespace()), ident.name())), ident).get
    TableLocation.of(session, new Path(staged.location), staged.options)
  }

  /** A table that the catalog manages was named by its first commit. */
  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): Table = {
    val provider = Option(properties.get(TableCatalog.PROP_PROVIDER)).getOrElse("")
    if (others.isDefined && !provider.equalsIgnoreCase("delta"))
      return StagingShim.createIn(others.get, ident, NewTable(columns, partitions, properties))
    if (properties.get(TableCatalog.PROP_IS_MANAGED_LOCATION) != "true") {
      val location = Option(properties.get(TableCatalog.PROP_LOCATION))
      val lies = location.map(place => TableLocation(TableLocation.path(session, new Path(place))))
      Bridge.call(
        session,
        AddToCatalogRequest(named, schemaOf(ident.namespace()), ident.name(), provider, location),
        lies.toSeq: _*)
    }
    loadTable(ident)
  }

  override def alterTable(ident: Identifier, changes: TableChange*): Table = refuse("ALTER TABLE SET LOCATION")

  override def dropTable(ident: Identifier): Boolean = others.map(_.dropTable(ident)).getOrElse(
    ident.namespace().length == 1 && Bridge.call(session, DropFromCatalogRequest(named, ident.namespace()(0), ident.name())))

  override def renameTable(from: Identifier, to: Identifier): Unit =
    Bridge.call(
      session,
      RenameInCatalogRequest(named, schemaOf(from.namespace()), from.name(), to.namespace().headOption, to.name()))

  // --- schemas ---------------------------------------------------------------------------------------------------------------------

  override def listNamespaces(): Array[Array[String]] = names(None).map(Array(_)).toArray

  override def listNamespaces(namespace: Array[String]): Array[Array[String]] =
    if (namespace.isEmpty) listNamespaces()
    else {
      loadNamespaceMetadata(namespace)
      Array.empty
    }

  override def loadNamespaceMetadata(namespace: Array[String]): util.Map[String, String] =
    if (namespace.length == 1 && names(None).contains(namespace(0))) new util.HashMap() else throw new NoSuchNamespaceException(namespace)

  override def createNamespace(namespace: Array[String], metadata: util.Map[String, String]): Unit =
    others.map(_.createNamespace(namespace, metadata)).getOrElse(refuse("CREATE SCHEMA"))

  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit =
    others.map(_.alterNamespace(namespace, changes: _*)).getOrElse(refuse("ALTER SCHEMA"))

  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean =
    others.map(_.dropNamespace(namespace, cascade)).getOrElse(refuse("DROP SCHEMA"))

  private def schemaOf(namespace: Array[String]): String =
    if (namespace.length == 1) namespace(0) else throw new NoSuchNamespaceException(namespace)

  private def names(schema: Option[String]): Seq[String] = Bridge.call(session, ListCatalogRequest(named, schema)).names

  private def refuse(operation: String): Nothing =
    throw HeadwaterException("HEADWATER_CATALOG_OPERATION_UNSUPPORTED", "catalog" -> named, "operation" -> operation)

  // --- functions: none -------------------------------------------------------------------------------------------------------------

  override def listFunctions(namespace: Array[String]): Array[Identifier] = Array.empty

  override def loadFunction(ident: Identifier): UnboundFunction = throw new NoSuchFunctionException(ident)
}

object UnityTables {
  /** Whether the settings of a catalog are of a server whose interface for Delta tables is to be used. */
  def isOne(options: CaseInsensitiveStringMap): Boolean =
    options.containsKey("uri") && options.getBoolean("deltaRestApi.enabled", true)
}
