package headwater.spark

import java.util

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.{Bridge, StatementContext, TableLocation}
import headwater.spark.bridge.messages._
import headwater.spark.catalog.{Extension, HeadwaterTable, MergeableTable, TableChangeMessage, TableVersion}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException, TableAlreadyExistsException}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * `spark.sql.catalog.NAME` names this class: the catalog NAME of a Unity Catalog server, whose managed tables are committed to through it.
 * The settings of the catalog cross to the handler with each call.
 */
class HeadwaterUnityCatalog extends TableCatalog with SupportsNamespaces {
  private var named = ""

  private def session: SparkSession = {
    val active = SparkSession.active
    Extension.require(active)
    active
  }

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = named = name

  override def name(): String = named

  override def toString: String = name()

  override def capabilities(): util.Set[TableCatalogCapability] =
    util.EnumSet.of(
      TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE,
      TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS,
      TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS)

  // --- tables ----------------------------------------------------------------------------------------------------------------------

  override def listTables(namespace: Array[String]): Array[Identifier] =
    names(Some(schemaOf(namespace))).map(Identifier.of(namespace, _)).toArray

  override def loadTable(ident: Identifier): Table = new MergeableTable(load(ident, TableVersion.Latest))

  override def loadTable(ident: Identifier, privileges: util.Set[TableWritePrivilege]): Table = load(ident, TableVersion.Latest)

  override def loadTable(ident: Identifier, version: String): Table = {
    val number = scala.util.Try(version.trim.toLong).toOption
    if (number.isEmpty) throw Bridge.refusal(session, InvalidVersionRequest(version))
    load(ident, TableVersion(number, None))
  }

  /** `timestamp` in microseconds since the epoch. */
  override def loadTable(ident: Identifier, timestamp: Long): Table = load(ident, TableVersion(None, Some(timestamp.toString)))

  private def load(ident: Identifier, version: TableVersion): HeadwaterTable =
    if (ident.namespace().length != 1) throw new NoSuchTableException(ident)
    else Bridge.call(session, FindInCatalogRequest(named, ident.namespace()(0), ident.name())).path match {
      case Some(path) => HeadwaterTable.load(session, TableLocation(path), version)
      case None => throw new NoSuchTableException(ident)
    }

  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): Table = {
    val schema = schemaOf(ident.namespace())
    if (tableExists(ident)) throw new TableAlreadyExistsException(ident)
    val staged = Bridge.call(session, StageInCatalogRequest(named, schema, ident.name()))
    val own = properties.asScala.toMap.filterNot { case (key, _) => HeadwaterCatalog.isReserved(key) }
    val context = new StatementContext(session, TableLocation(staged.path))
    try Bridge.call(
        context,
        CreateTableRequest(
          table = staged.path,
          name = Some(s"$named.$schema.${ident.name()}"),
          mode = "create",
          external = false,
          schema = SparkInternals.schema(columns).json,
          partitioning = partitions.map(_.describe()).toSeq,
          partitionColumns = partitions.toSeq.filter(_.name() == "identity").flatMap(_.references().headOption)
            .map(_.fieldNames().mkString(".")),
          comment = Option(properties.get(TableCatalog.PROP_COMMENT)),
          properties = own ++ staged.properties,
          plan = None,
          rowSchema = None,
          options = Map.empty))
    finally context.close()
    loadTable(ident)
  }

  override def alterTable(ident: Identifier, changes: TableChange*): Table = {
    val table = load(ident, TableVersion.Latest)
    Bridge.call(session, AlterTableRequest(table.path, table.name(), changes.map(TableChangeMessage.of)), table.location)
    SparkInternals.refreshCaches(session, table.location)
    loadTable(ident)
  }

  override def dropTable(ident: Identifier): Boolean =
    ident.namespace().length == 1 && Bridge.call(session, DropFromCatalogRequest(named, ident.namespace()(0), ident.name()))

  override def renameTable(from: Identifier, to: Identifier): Unit = {
    // Spark gives a new name without a schema as one of no schema.
    if (to.namespace().nonEmpty && !to.namespace().sameElements(from.namespace())) throw new NoSuchNamespaceException(to.namespace())
    Bridge.call(session, RenameInCatalogRequest(named, schemaOf(from.namespace()), from.name(), to.name()))
  }

  // --- schemas ---------------------------------------------------------------------------------------------------------------------

  override def listNamespaces(): Array[Array[String]] = names(None).map(Array(_)).toArray

  override def listNamespaces(namespace: Array[String]): Array[Array[String]] =
    if (namespace.isEmpty) listNamespaces() else { loadNamespaceMetadata(namespace); Array.empty }

  override def loadNamespaceMetadata(namespace: Array[String]): util.Map[String, String] =
    if (namespace.length == 1 && names(None).contains(namespace(0))) new util.HashMap()
    else throw new NoSuchNamespaceException(namespace)

  override def createNamespace(namespace: Array[String], metadata: util.Map[String, String]): Unit =
    throw new UnsupportedOperationException("CREATE SCHEMA")

  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit =
    throw new UnsupportedOperationException("ALTER SCHEMA")

  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean =
    throw new UnsupportedOperationException("DROP SCHEMA")

  private def schemaOf(namespace: Array[String]): String =
    if (namespace.length == 1) namespace(0) else throw new NoSuchNamespaceException(namespace)

  private def names(schema: Option[String]): Seq[String] = Bridge.call(session, ListCatalogRequest(named, schema)).names
}

object HeadwaterUnityCatalog {
  private val Prefix = "spark.sql.catalog."

  /** Whether a setting is one of a catalog of this class. */
  private[spark] def isSetting(conf: SQLConf, key: String): Boolean =
    key.startsWith(Prefix) &&
      conf.getConfString(Prefix + key.stripPrefix(Prefix).takeWhile(_ != '.'), "") == classOf[HeadwaterUnityCatalog].getName
}
