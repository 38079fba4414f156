package headwater.spark

import java.util

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.{Bridge, TableLocation}
import headwater.spark.bridge.messages.{
  AlterTableRequest, ChangesBound, ChangesForm, CheckSameSchemaRequest, CommitAnswer, TableExistsRequest
}
import headwater.spark.catalog.{
  ClonedSource, CreatedTables, Extension, HandedTable, HeadwaterTable, MergeableTable, NonDeltaStagedTable, Refusals, TableChangeMessage,
  TableCreation, TableEntry, TableRegistry, TableVersion, UnityTables
}
import headwater.spark.changes.HeadwaterChangelog
import headwater.spark.shims.{CatalogShim, ChangeShim, NewTable}
import headwater.spark.streaming.PlannedTable
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{NoSuchTableException, TableAlreadyExistsException}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * `spark.sql.catalog.spark_catalog` names this class: Spark's session catalog, with Delta tables by name and by path (``delta.`/path` ``).
 * Tables of other formats are left to the session catalog. Another catalog may put one of its own in that place (`setDelegateCatalog`).
 */
class HeadwaterCatalog extends DelegatingCatalogExtension with StagingTableCatalog with TableCatalog with CatalogShim {
  private def session: SparkSession = SparkSession.active
  private def registry: TableRegistry = TableRegistry.of(session, delegate)

  /**
   * Unity Catalog's own connector puts its catalog below this one and hands over its settings: the Delta tables of that server are then
   * asked of the server itself, as those of [[HeadwaterUnityCatalog]] are, and its catalog keeps all else.
   */
  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = delegate match {
    case others: TableCatalog with SupportsNamespaces if UnityTables.isOne(options) =>
      setDelegateCatalog(new UnityTables(name, Some(others)))
    case _ => super.initialize(name, options)
  }

  /** Spark's plans show the catalog like this. */
  override def toString: String = name()

  override def capabilities(): util.Set[TableCatalogCapability] = {
    val all = new util.HashSet[TableCatalogCapability](super.capabilities())
    all.add(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE)
    all.add(TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS)
    all.add(TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS)
    ChangeShim.capabilities.foreach(all.add)
    all
  }

  // --- load ------------------------------------------------------------------------------------------------------------------------

  override def loadTable(ident: Identifier): Table = PlannedTable.named(ident).getOrElse(load(ident, TableVersion.Latest) match {
    // A catalog above ours may load the targets of statements here too.
    case table: HeadwaterTable if SparkInternals.isCatalogOf(session, this) => new MergeableTable(table)
    case other => other
  })

  /** The target of a statement that writes. */
  override def loadTable(ident: Identifier, privileges: util.Set[TableWritePrivilege]): Table = load(ident, TableVersion.Latest)

  override def loadTable(ident: Identifier, version: String): Table =
    load(ident, TableVersion(scala.util.Try(version.trim.toLong).toOption, None), asked = version)

  /** `timestamp` in microseconds since the epoch. */
  override def loadTable(ident: Identifier, timestamp: Long): Table = load(ident, TableVersion(None, Some(timestamp.toString)))

  private def load(ident: Identifier, version: TableVersion, asked: String = null): Table = {
    if (asked != null && version.version.isEmpty) {
      throw HeadwaterException("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE", "version" -> asked)
    }
    if (isPath(ident)) HeadwaterTable.load(session, locationOf(ident), version)
    else {
      val found = try super.loadTable(ident)
      catch {
        case e: NoSuchTableException if version.isLatest => return created(ident).orElse(named(ident)).getOrElse(throw e)
      }
      TableRegistry.entry(found, identifier(ident)) match {
        case Some(table) if isDelta(table.provider) =>
          HeadwaterTable.load(session, locationOf(table), version, Some(table))
        case _ if version.isLatest => found
        case _ =>
          version.version.map(v => super.loadTable(ident, v.toString)).getOrElse(super.loadTable(ident, version.timestamp.get.toLong))
      }
    }
  }

  /** A table that the session's open transaction creates. */
  private def created(ident: Identifier): Option[Table] =
    CreatedTables(session, registry).find(ident).map(table => HeadwaterTable.load(session, locationOf(table), catalogTable = Some(table)))

  /** A table whose name ends with a version or a time, as in `rivers@v3`. Only tried when no table has the whole name. */
  private def named(ident: Identifier): Option[Table] = ident.name() match {
    case HeadwaterCatalog.NameWithVersion(name, version) =>
      val found = try Some(super.loadTable(Identifier.of(ident.namespace(), name)))
      catch { case _: NoSuchTableException => None }
      found.flatMap(TableRegistry.entry(_, identifier(Identifier.of(ident.namespace(), name)))).filter(table => isDelta(table.provider))
        .map { table =>
          val location = locationOf(table)
          HeadwaterTable.load(session, location.copy(path = location.path + version), catalogTable = Some(table))
        }
    case _ => None
  }

  override protected def changesOf(ident: Identifier, bounds: Seq[ChangesBound], deduplicationMode: String): Option[HeadwaterChangelog] =
    loadTable(ident) match {
      case table: HeadwaterTable =>
        Some(HeadwaterChangelog.load(session, table.location, bounds, ChangesForm(), deduplicationMode = Some(deduplicationMode)))
      case _ => None
    }

  override def tableExists(ident: Identifier): Boolean = {
    PlannedTable.forget()
    if (isPath(ident)) exists(locationOf(ident))
    else hasEntry(ident) || CreatedTables(session, registry).find(ident).isDefined
  }

  /** Whether the catalog itself has a table of this name, of whatever format. */
  private[spark] def hasEntry(ident: Identifier): Boolean = super.tableExists(ident)

  private[spark] def exists(location: TableLocation): Boolean =
    Bridge.call(session, TableExistsRequest(location.path), location)

  private[spark] def isPath(ident: Identifier): Boolean =
    ident.namespace().length == 1 && ident.namespace()(0).equalsIgnoreCase("delta") &&
      ident.name().contains("/") && !registry.hasNamespace(ident.namespace())

  /** Whether a name is a format and a path, as in ``parquet.`/path` ``, and not a table of a namespace that there is. */
  private[spark] def isFolder(name: Seq[String]): Boolean =
    name.size == 2 && name(1).contains("/") && !registry.hasNamespace(Array(name.head))

  private[spark] def tables: TableRegistry = registry

  /** Whether a statement that names this format, or none, creates a table of ours in Spark's own session catalog. */
  private[spark] def creates(provider: Option[String]): Boolean =
    registry.converts && provider.orElse(Some(defaultProvider)).exists(_.equalsIgnoreCase("delta"))

  private def locationOf(ident: Identifier): TableLocation =
    HandedTable.find(session, ident.name()).getOrElse(TableLocation(pathOf(ident)))

  private def pathOf(ident: Identifier): String = TableLocation.path(session, pathIn(ident))

  private[spark] def pathIn(ident: Identifier): Path = {
    Extension.require(session)
    new Path(ident.name())
  }

  private[spark] def isDelta(provider: Option[String]): Boolean = {
    val found = provider.exists(_.equalsIgnoreCase("delta"))
    if (found) Extension.require(session)
    found
  }

  /** Other catalogs hand over credentials in the entry. */
  private[spark] def locationOf(table: CatalogTable, options: Map[String, String] = Map.empty): TableLocation =
    TableLocation.of(session, new Path(table.location), table.storage.properties ++ options)

  // --- create and replace ----------------------------------------------------------------------------------------------------------

  override protected def create(ident: Identifier, table: NewTable): Table =
    if (isDelta(providerOf(table.properties))) {
      val creation = new TableCreation(this, ident, table, "create")
      val planned = if (PlannedTable.isForStream) creation.planned else None
      planned.foreach(PlannedTable.note)
      val made = if (planned.isEmpty) creation.commit() else None
      made.map(new MergeableTable(_)).getOrElse(loadTable(ident))
    } else createBelow(ident, table)

  override def createLike(ident: Identifier, table: NewTable, source: Table): Table = {
    val provider =
      Option(table.properties.get(TableCatalog.PROP_PROVIDER)).orElse(Option(source.properties.get(TableCatalog.PROP_PROVIDER)))
    if (isDelta(provider)) {
      val like = source match {
        case delta: HeadwaterTable => Some(delta.location)
        case _ => None
      }
      new TableCreation(this, ident, table, "create").commit(like = like)
      loadTable(ident)
    } else createBelow(ident, table)
  }

  override protected def stage(ident: Identifier, table: NewTable, mode: String): StagedTable = {
    if (mode == "create" && tableExists(ident)) throw new TableAlreadyExistsException(ident)
    if (mode == "replace" && !tableExists(ident)) throw new NoSuchTableException(ident)
    if (isDelta(providerOf(table.properties))) new TableCreation(this, ident, table, mode).staged
    else new NonDeltaStagedTable(this, ident, table, mode, () => createBelow(ident, table))
  }

  // Catalogs that wrap this one may still ask by a schema, as Spark no longer does.

  override def createTable(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: util.Map[String, String]): Table =
    create(ident, asked(schema, partitions, properties))

  override def stageCreate(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable = stage(ident, asked(schema, partitions, properties), "create")

  override def stageReplace(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable = stage(ident, asked(schema, partitions, properties), "replace")

  override def stageCreateOrReplace(
      ident: Identifier,
      schema: StructType,
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable = stage(ident, asked(schema, partitions, properties), "create_or_replace")

  private def asked(schema: StructType, partitions: Array[Transform], properties: util.Map[String, String]): NewTable =
    NewTable(SparkInternals.columns(schema), partitions, properties)

  private def providerOf(properties: util.Map[String, String]): Option[String] =
    Option(properties.get(TableCatalog.PROP_PROVIDER)).orElse(Some(defaultProvider))

  /** The format of a new table whose user names none. */
  protected def defaultProvider: String = SparkInternals.conf(session).defaultDataSourceName

  private def identifier(ident: Identifier): TableIdentifier = registry.identifier(ident)

  /**
   * Commits a clone of a table, then registers it with the metastore. None where there is a table and `ifNotExists` is true.
   *
   * @param table the columns of the source, and what the statement says of the new table
   */
  private[spark] def cloneTable(
      ident: Identifier,
      table: NewTable,
      mode: String,
      ifNotExists: Boolean,
      source: ClonedSource,
      arguments: JsonNode): Option[CommitAnswer] = {
    val exists = tableExists(ident)
    if (exists && mode == "create" && !ifNotExists) throw new TableAlreadyExistsException(ident)
    if (!exists && mode == "replace") throw new NoSuchTableException(ident)
    if (exists && ifNotExists) None
    else Some(new TableCreation(this, ident, table, mode).commitClone(source, arguments))
  }

  // --- alter, rename, drop ---------------------------------------------------------------------------------------------------------

  override def alterTable(ident: Identifier, changes: TableChange*): Table =
    scala.util.Try(loadTable(ident)).toOption match {
      case Some(table: HeadwaterTable) =>
        table.requireLatest()
        val (moves, others) =
          changes.partition { case s: TableChange.SetProperty => s.property == TableCatalog.PROP_LOCATION; case _ => false }
        moves.collect { case move: TableChange.SetProperty => setLocation(ident, table, move.value) }
        if (others.nonEmpty) {
          Bridge.call(session, AlterTableRequest(table.path, Some(table.name()), others.map(TableChangeMessage.of)), table.location)
          SparkInternals.refreshCaches(session, table.location, always = true)
        }
        loadTable(ident)
      case Some(_) => super.alterTable(ident, changes: _*)
      case None => loadTable(ident)
    }

  private def setLocation(ident: Identifier, table: HeadwaterTable, location: String): Unit = {
    refuseForPath(ident, "ALTER TABLE SET LOCATION")
    val path = HeadwaterTable.path(session, location)
    Bridge.call(session, CheckSameSchemaRequest(table.path, path), table.location, TableLocation(path))
    registry.move(ident, TableLocation.qualified(session, new Path(path)).toUri)
    TableEntry.follow(session, TableLocation(path, entry = Some(new TableEntry(identifier(ident)))))
  }

  override def dropTable(ident: Identifier): Boolean = {
    refuseForPath(ident, "DROP TABLE")
    super.dropTable(ident)
  }

  override def purgeTable(ident: Identifier): Boolean = {
    refuseForPath(ident, "DROP TABLE")
    super.purgeTable(ident)
  }

  override def renameTable(from: Identifier, to: Identifier): Unit = {
    refuseForPath(from, "ALTER TABLE RENAME")
    super.renameTable(from, to)
  }

  private def refuseForPath(ident: Identifier, operation: String): Unit =
    if (isPath(ident)) throw Refusals.forPath(pathOf(ident), operation)
}

object HeadwaterCatalog {
  private val NameWithVersion = "(?s)(.+)(@(?:v\\d+|\\d{17}))".r
}
