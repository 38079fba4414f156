package headwater.spark

import java.util

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.{Bridge, StatementContext, StoreOptions, TableLocation}
import headwater.spark.bridge.messages.{
  AlterTableRequest, ChangesBound, ChangesForm, CheckSamePlaceRequest, CheckSameSchemaRequest, CloneRequest, CommitAnswer,
  CreateTableRequest, IdentitySpecification, TableExistsRequest
}
import headwater.spark.catalog.{
  ClonedSource, CreatedTables, Extension, HandedTable, HeadwaterStagedTable, HeadwaterTable, MergeableTable, NonDeltaStagedTable,
  Refusals, TableChangeMessage, TableEntry, TableRegistry, TableVersion, UnityTables
}
import headwater.spark.changes.HeadwaterChangelog
import headwater.spark.shims.{CatalogShim, ChangeShim, NewTable, SaveAsTable}
import headwater.spark.streaming.PlannedTable
import headwater.spark.write.HeadwaterWrites
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{NoSuchTableException, TableAlreadyExistsException}
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.execution.datasources.DataSourceUtils
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
    else super.tableExists(ident) || CreatedTables(session, registry).find(ident).isDefined
  }

  private def exists(location: TableLocation): Boolean =
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

  private def pathIn(ident: Identifier): Path = {
    Extension.require(session)
    new Path(ident.name())
  }

  private def isDelta(provider: Option[String]): Boolean = {
    val found = provider.exists(_.equalsIgnoreCase("delta"))
    if (found) Extension.require(session)
    found
  }

  /** Other catalogs hand over credentials in the entry. */
  private def locationOf(table: CatalogTable, options: Map[String, String] = Map.empty): TableLocation =
    TableLocation.of(session, new Path(table.location), table.storage.properties ++ options)

  // --- create and replace ----------------------------------------------------------------------------------------------------------

  override protected def create(ident: Identifier, table: NewTable): Table =
    if (isDelta(providerOf(table.properties))) {
      var made: Option[Table] = None
      def make(place: Option[(TableLocation, Boolean)], options: Map[String, String]): Unit =
        commit(ident, table, "create", place = place, registered = found => made = Some(new MergeableTable(found)))(None, options)
      lazy val (location, external) = newLocation(ident, table.properties)
      if (PlannedTable.isForStream && !exists(location)) {
        val registered = if (isPath(ident)) None else Some(entry(ident, location, external, table.properties.asScala.toMap))
        PlannedTable.note(new PlannedTable(ident, location.path, registered, make(staged(location, external), _)))
      } else make(None, Map.empty)
      made.getOrElse(loadTable(ident))
    } else createBelow(ident, table)

  override def createLike(ident: Identifier, table: NewTable, source: Table): Table = {
    val provider =
      Option(table.properties.get(TableCatalog.PROP_PROVIDER)).orElse(Option(source.properties.get(TableCatalog.PROP_PROVIDER)))
    if (isDelta(provider)) {
      val like = source match {
        case delta: HeadwaterTable => Some(delta.location)
        case _ => None
      }
      commit(ident, table, "create", like)(None, Map.empty)
      loadTable(ident)
    } else createBelow(ident, table)
  }

  override protected def stage(ident: Identifier, table: NewTable, mode: String): StagedTable = {
    if (mode == "create" && tableExists(ident)) throw new TableAlreadyExistsException(ident)
    if (mode == "replace" && !tableExists(ident)) throw new NoSuchTableException(ident)
    if (isDelta(providerOf(table.properties))) {
      val place = newLocation(ident, table.properties)
      new HeadwaterStagedTable(
        session,
        place._1,
        SparkInternals.schema(table.columns),
        partitionNames(table.partitions),
        commit(ident, table, mode, place = staged(place._1, place._2)))
    } else
      new NonDeltaStagedTable(this, ident, table, mode, () => createBelow(ident, table))
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

  /** A place that the catalog has given to one new table is the one that its commit uses: no second one is asked for. */
  private def staged(location: TableLocation, external: Boolean): Option[(TableLocation, Boolean)] =
    Option.when(location.store.managed.isDefined)((location, external))

  private def providerOf(properties: util.Map[String, String]): Option[String] =
    Option(properties.get(TableCatalog.PROP_PROVIDER)).orElse(Some(defaultProvider))

  /** The format of a new table whose user names none. */
  protected def defaultProvider: String = SparkInternals.conf(session).defaultDataSourceName

  private def partitionNames(partitions: Array[Transform]): Seq[String] = partitions.toSeq.flatMap {
    case transform if transform.name() == "identity" => transform.references().headOption.map(_.fieldNames().mkString("."))
    case _ => None
  }

  /**
   * The location of a new table, and whether the user chose it, which makes the table external. A table that the catalog has, or that is
   * named by its path, stays where it is.
   */
  private def newLocation(
      ident: Identifier,
      properties: util.Map[String, String],
      writeOptions: Map[String, String] = Map.empty): (TableLocation, Boolean) = {
    val options = HeadwaterCatalog.options(properties) ++ writeOptions
    def at(path: Path): TableLocation = TableLocation.of(session, path, options)
    val existing = if (isPath(ident)) None
    else registry.find(ident).filter(t => isDelta(t.provider))
    val isManaged = properties.get(TableCatalog.PROP_IS_MANAGED_LOCATION) == "true"
    val placed = Option(properties.get(TableCatalog.PROP_LOCATION))
    val chosen = placed.filterNot(_ => isManaged)
    val known = if (isPath(ident)) Some(at(pathIn(ident))) else existing.map(locationOf(_, options))
    val location = chosen.map(path => at(new Path(path)))
    for (place <- known.map(_.path); other <- location.map(_.path) if other != place) {
      Bridge.call(session, CheckSamePlaceRequest(place, other, if (isPath(ident)) None else Some(identifier(ident).unquotedString)))
    }
    if (isPath(ident)) (known.get, true)
    else existing.map(table => (known.get, table.tableType == CatalogTableType.EXTERNAL))
      .orElse(location.map((_, true)))
      .orElse(registry.place(ident).map((_, false)))
      .getOrElse((at(managedLocation(ident, placed.filter(_ => isManaged))), false))
  }

  /** A catalog above ours may have chosen the place of its managed table. */
  private def managedLocation(ident: Identifier, placed: Option[String]): Path =
    placed.filterNot(_ => SparkInternals.isSessionCatalog(delegate)).map(new Path(_)).getOrElse(registry.defaultLocation(ident))

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
    else Some(making(ident, table, mode, Map.empty) { (location, external, known) =>
      Bridge.call(
        session,
        CloneRequest(
          table = location.path,
          name = Option.unless(isPath(ident))(identifier(ident).unquotedString),
          mode = mode,
          known = isPath(ident) || known,
          external = external,
          properties = ownProperties(table),
          source = source.location.path,
          sourceName = source.name,
          sourceVersion = source.version,
          format = source.format,
          entry = source.entry,
          arguments = arguments),
        location,
        source.location)
    })
  }

  /** The properties of a new table that are its own. */
  private def ownProperties(table: NewTable): Map[String, String] = {
    val properties = table.properties.asScala.toMap
    properties -- HeadwaterCatalog.options(table.properties).keys -- properties.keys.filter(HeadwaterCatalog.isReserved)
  }

  /**
   * Has a table committed at its location, then registers it with the metastore. `commit` learns whether the catalog has it already.
   *
   * @param registered is given the table, where its entry had to be made from it
   */
  private def making[A](
      ident: Identifier,
      table: NewTable,
      mode: String,
      options: Map[String, String],
      place: Option[(TableLocation, Boolean)] = None,
      registered: HeadwaterTable => Unit = _ => ())(commit: (TableLocation, Boolean, Boolean) => A): A = {
    val byPath = isPath(ident)
    if (!byPath && !registry.hasNamespace(ident.namespace())) {
      throw new org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException(ident.namespace())
    }
    val (location, external) = place.getOrElse(newLocation(ident, table.properties, options))
    val known = !byPath && super.tableExists(ident)
    if (known && mode == "create") throw new TableAlreadyExistsException(ident)
    if (known) refuseOtherFormat(ident)
    val named = if (known) location.copy(entry = Some(new TableEntry(identifier(ident)))) else location
    val committed = commit(named, external, known)
    // The name of a table that a transaction creates is there with its COMMIT.
    if (!byPath && !known && SparkInternals.transaction(session).isEmpty) register(ident, location, external, table, registered)
    SparkInternals.refreshCaches(session, location)
    committed
  }

  /** Commits the definition, with the rows if there are any, then registers the table with the metastore. */
  private def commit(
      ident: Identifier,
      table: NewTable,
      mode: String,
      like: Option[TableLocation] = None,
      place: Option[(TableLocation, Boolean)] = None,
      registered: HeadwaterTable => Unit = _ => ())(rows: Option[DataFrame], options: Map[String, String]): Unit =
    making(ident, table, mode, options, place, registered) { (location, external, known) =>
      if (SaveAsTable.overwrites(mode, options) && rows.isDefined && exists(location)) {
        // saveAsTable in mode overwrite replaces the rows and keeps the definition, unless its options say otherwise.
        HeadwaterWrites.save(session, location, "Overwrite", partitionNames(table.partitions), options, rows.get)
      } else commitDefinition(ident, table, mode, like, location, external, known)(rows, options)
    }

  private def commitDefinition(
      ident: Identifier,
      table: NewTable,
      mode: String,
      like: Option[TableLocation],
      location: TableLocation,
      external: Boolean,
      known: Boolean)(rows: Option[DataFrame], options: Map[String, String]): Unit = {
    val byPath = isPath(ident)
    val context = new StatementContext(session, location +: like.toSeq: _*)
    try Bridge.call(
        context,
        CreateTableRequest(
          table = location.path,
          name = if (byPath) None else Some(identifier(ident).unquotedString),
          identifier = if (byPath) Nil else CreatedTables.parts(ident),
          mode = mode,
          known = byPath || known,
          external = external,
          schema = SparkInternals.schema(table.columns).json,
          partitioning = table.partitions.map(_.describe()).toSeq,
          partitionColumns = partitionNames(table.partitions),
          comment = Option(table.properties.get(TableCatalog.PROP_COMMENT)),
          properties = ownProperties(table),
          like = like.map(_.path),
          constraints = table.constraints,
          identity = table.columns.toSeq.flatMap(c =>
            Option(c.identityColumnSpec()).map(s =>
              IdentitySpecification(
                column = c.name(),
                start = s.getStart,
                step = s.getStep,
                allowExplicitInsert = s.isAllowExplicitInsert))),
          generated = table.columns.flatMap(c => Option(c.generationExpression()).map(e => c.name() -> e)).toMap,
          plan = rows.map(r => context.addPlan(SparkInternals.logicalPlan(r))),
          rowSchema = rows.map(found => SparkInternals.rowSchema(found.schema)),
          options = StoreOptions.others(options)))
    finally context.close()
  }

  private def register(
      ident: Identifier,
      location: TableLocation,
      external: Boolean,
      table: NewTable,
      registered: HeadwaterTable => Unit): Unit = {
    val made = entry(ident, location, external, table.properties.asScala.toMap)
    def found = {
      val loaded = HeadwaterTable.load(session, location, catalogTable = Some(made))
      registered(loaded)
      loaded
    }
    registry.add(made, ident, table, found)
  }

  private def refuseOtherFormat(ident: Identifier): Unit = {
    val entry = registry.find(ident)
    if (!isDelta(entry.flatMap(_.provider))) {
      val name = identifier(ident).unquotedString
      val format = entry.map(found => found.provider.getOrElse(found.tableType.name)).getOrElse("another format")
      if (format == "VIEW") throw HeadwaterException("DELTA_CANNOT_WRITE_INTO_VIEW", "table" -> name)
      throw HeadwaterException(
        "DELTA_NOT_A_DELTA_TABLE",
        "tableName" -> name,
        "provider" -> s" (it is: $format)",
        "hint" -> "REPLACE does not turn it into one. Drop it first, then create the Delta table, or use another name.")
    }
  }

  /** What the metastore must have: the name, the provider and the location. Everything else is in the log. */
  private def entry(ident: Identifier, location: TableLocation, external: Boolean, properties: Map[String, String]): CatalogTable =
    CatalogTable(
      identifier = identifier(ident),
      tableType = if (external) CatalogTableType.EXTERNAL else CatalogTableType.MANAGED,
      storage = CatalogStorageFormat.empty.copy(
        locationUri =
          Some(TableLocation.qualified(session, new Path(location.path), location.store).toUri),
        properties = location.store.ofCatalog),
      schema = new StructType,
      provider = Some("delta"),
      comment = properties.get(TableCatalog.PROP_COMMENT))

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

  private val reserved = Set(
    TableCatalog.PROP_PROVIDER,
    TableCatalog.PROP_LOCATION,
    TableCatalog.PROP_COMMENT,
    TableCatalog.PROP_OWNER,
    TableCatalog.PROP_EXTERNAL,
    TableCatalog.PROP_IS_MANAGED_LOCATION,
    TableCatalog.PROP_COLLATION,
    DataSourceUtils.CLUSTERING_COLUMNS_KEY,
    "path")

  /** The options of file systems that a statement gives for its new table. Spark makes properties of them. */
  private def options(properties: util.Map[String, String]): Map[String, String] = properties.asScala.toMap.collect {
    case (name, value) if name.startsWith(TableCatalog.OPTION_PREFIX) && StoreOptions.isOne(name.stripPrefix(TableCatalog.OPTION_PREFIX)) =>
      name.stripPrefix(TableCatalog.OPTION_PREFIX) -> value
  }

  /** Whether Spark itself sets this property, which is then no property of the table. */
  def isReserved(key: String): Boolean = reserved.contains(key) || key.startsWith(TableCatalog.OPTION_PREFIX)
}
