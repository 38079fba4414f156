package headwater.spark.catalog

import java.util

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.{HeadwaterCatalog, HeadwaterException}
import headwater.spark.bridge.{Bridge, StatementContext, StoreOptions, TableLocation}
import headwater.spark.bridge.messages.{CheckSamePlaceRequest, CloneRequest, CommitAnswer, CreateTableRequest, IdentitySpecification}
import headwater.spark.shims.{NewTable, SaveAsTable}
import headwater.spark.streaming.PlannedTable
import headwater.spark.write.HeadwaterWrites
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, TableAlreadyExistsException}
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType}
import org.apache.spark.sql.connector.catalog.{Identifier, StagedTable, TableCatalog}
import org.apache.spark.sql.execution.datasources.DataSourceUtils
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/**
 * A Delta table that a statement creates or replaces: its place, its commit, and then its entry in the catalog.
 *
 * @param table what the statement says of it; of a clone, with the columns of the source
 * @param mode `create`, `replace` or `create_or_replace`
 */
private[spark] final class TableCreation(catalog: HeadwaterCatalog, ident: Identifier, table: NewTable, mode: String) {
  import TableCreation._

  private lazy val byPath = catalog.isPath(ident)
  private def session: SparkSession = SparkSession.active
  private def registry: TableRegistry = catalog.tables
  private def name: Option[String] = Option.unless(byPath)(registry.identifier(ident).unquotedString)

  /** The table with its rows, which its commit writes. */
  def staged: StagedTable = {
    val place = placeWith(Map.empty)
    new HeadwaterStagedTable(
      session,
      place.location,
      SparkInternals.schema(table.columns),
      partitionNames,
      (rows, options) => commit(rows, options, place.assigned))
  }

  /** The table as a stream's query will create it; None if there is one already. */
  def planned: Option[PlannedTable] = {
    val place = placeWith(Map.empty)
    Option.unless(catalog.exists(place.location))(
      new PlannedTable(
        ident,
        place.location.path,
        Option.unless(byPath)(entry(place)),
        options => commit(options = options, assigned = place.assigned)))
  }

  /**
   * Commits the definition, with the rows if there are any, then makes the entry. Returns the table if its entry was made from it.
   *
   * @param like the table whose definition it takes
   */
  def commit(
      rows: Option[DataFrame] = None,
      options: Map[String, String] = Map.empty,
      assigned: Option[Place] = None,
      like: Option[TableLocation] = None): Option[HeadwaterTable] = {
    val place = begun(assigned.getOrElse(placeWith(options)))
    if (SaveAsTable.overwrites(mode, options) && rows.isDefined && catalog.exists(place.location)) {
      // saveAsTable in mode overwrite replaces the rows and keeps the definition, unless its options say otherwise.
      HeadwaterWrites.save(session, place.location, "Overwrite", partitionNames, options, rows.get)
    } else commitDefinition(place, rows, options, like)
    register(place)
  }

  /** Commits a clone of a table, then makes the entry. */
  def commitClone(source: ClonedSource, arguments: JsonNode): CommitAnswer = {
    val place = begun(placeWith(Map.empty))
    val answer = Bridge.call(
      session,
      CloneRequest(
        table = place.location.path,
        name = name,
        mode = mode,
        known = byPath || place.isKnown,
        external = place.external,
        properties = ownProperties,
        source = source.location.path,
        sourceName = source.name,
        sourceVersion = source.version,
        format = source.format,
        entry = source.entry,
        arguments = arguments),
      place.location,
      source.location)
    register(place)
    answer
  }

  /** A table that the catalog has, or that is named by its path, stays where it is. */
  private def placeWith(writeOptions: Map[String, String]): Place = {
    val options = TableCreation.options(table.properties) ++ writeOptions
    def at(path: Path): TableLocation = TableLocation.of(session, path, options)
    val existing = if (byPath) Some(Place(at(catalog.pathIn(ident)), external = true))
    else registry.find(ident).filter(found => catalog.isDelta(found.provider)).map(found =>
      Place(catalog.locationOf(found, options), found.tableType == CatalogTableType.EXTERNAL))
    val isManaged = table.properties.get(TableCatalog.PROP_IS_MANAGED_LOCATION) == "true"
    val placed = Option(table.properties.get(TableCatalog.PROP_LOCATION)).map(new Path(_))
    val asked = placed.filterNot(_ => isManaged).map(path => Place(at(path), external = true))
    for (known <- existing.map(_.location.path); other <- asked.map(_.location.path) if other != known) {
      Bridge.call(session, CheckSamePlaceRequest(known, other, name))
    }
    existing.orElse(asked).orElse(registry.place(ident).map(Place(_, external = false))).getOrElse {
      // A catalog above ours may have chosen the place of its managed table.
      val path = placed.filterNot(_ => registry.converts).getOrElse(registry.defaultLocation(ident))
      Place(at(path), external = false)
    }
  }

  /** The place of a table that may be committed, reached by the entry that the catalog has of it. */
  private def begun(found: => Place): Place = {
    if (!byPath && !registry.hasNamespace(ident.namespace())) throw new NoSuchNamespaceException(ident.namespace())
    val place = found
    if (byPath || !catalog.hasEntry(ident)) place
    else {
      if (mode == "create") throw new TableAlreadyExistsException(ident)
      refuseOtherFormat()
      place.copy(location = place.location.copy(entry = Some(new TableEntry(registry.identifier(ident)))))
    }
  }

  private def refuseOtherFormat(): Unit = {
    val entry = registry.find(ident)
    if (!catalog.isDelta(entry.flatMap(_.provider))) {
      val format = entry.map(found => found.provider.getOrElse(found.tableType.name)).getOrElse("another format")
      if (format == "VIEW") throw HeadwaterException("DELTA_CANNOT_WRITE_INTO_VIEW", "table" -> name.get)
      throw HeadwaterException(
        "DELTA_NOT_A_DELTA_TABLE",
        "tableName" -> name.get,
        "provider" -> s" (it is: $format)",
        "hint" -> "REPLACE does not turn it into one. Drop it first, then create the Delta table, or use another name.")
    }
  }

  private def commitDefinition(
      place: Place,
      rows: Option[DataFrame],
      options: Map[String, String],
      like: Option[TableLocation]): Unit = {
    val context = new StatementContext(session, place.location +: like.toSeq: _*)
    try Bridge.call(
        context,
        CreateTableRequest(
          table = place.location.path,
          name = name,
          identifier = if (byPath) Nil else CreatedTables.parts(ident),
          mode = mode,
          known = byPath || place.isKnown,
          external = place.external,
          schema = SparkInternals.schema(table.columns).json,
          partitioning = table.partitions.map(_.describe()).toSeq,
          partitionColumns = partitionNames,
          comment = Option(table.properties.get(TableCatalog.PROP_COMMENT)),
          properties = ownProperties,
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

  /** Makes the entry of a table that the catalog does not have. Returns the table if the entry was made from it. */
  private def register(place: Place): Option[HeadwaterTable] = {
    // The name of a table that a transaction creates is there with its COMMIT.
    val isNew = !byPath && !place.isKnown && SparkInternals.transaction(session).isEmpty
    val registered = if (!isNew) None
    else {
      val made = entry(place)
      registry.add(made, ident, table, HeadwaterTable.load(session, place.location, catalogTable = Some(made)))
    }
    SparkInternals.refreshCaches(session, place.location)
    registered
  }

  /** What the metastore must have: the name, the provider and the location. Everything else is in the log. */
  private def entry(place: Place): CatalogTable = CatalogTable(
    identifier = registry.identifier(ident),
    tableType = if (place.external) CatalogTableType.EXTERNAL else CatalogTableType.MANAGED,
    storage = CatalogStorageFormat.empty.copy(
      locationUri = Some(TableLocation.qualified(session, new Path(place.location.path), place.location.store).toUri),
      properties = place.location.store.ofCatalog),
    schema = new StructType,
    provider = Some("delta"),
    comment = Option(table.properties.get(TableCatalog.PROP_COMMENT)))

  /** The properties that are the table's own. */
  private def ownProperties: Map[String, String] =
    table.properties.asScala.toMap.filterNot { case (key, _) => isReserved(key) } -- TableCreation.options(table.properties).keys

  private def partitionNames: Seq[String] = table.partitions.toSeq.flatMap {
    case transform if transform.name() == "identity" => transform.references().headOption.map(_.fieldNames().mkString("."))
    case _ => None
  }
}

private[spark] object TableCreation {
  /** Where a table lies, and whether the user chose that, which makes it external. */
  final case class Place(location: TableLocation, external: Boolean) {
    /** Whether the catalog has the table already. */
    def isKnown: Boolean = location.entry.isDefined

    /** A place that the catalog has given to one new table is the one that its commit uses: no second one is asked for. */
    def assigned: Option[Place] = Option.when(location.store.managed.isDefined)(this)
  }

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

  /** Whether Spark itself sets this property, which is then no property of the table. */
  private def isReserved(key: String): Boolean = reserved(key) || key.startsWith(TableCatalog.OPTION_PREFIX)

  /** The options of file systems that a statement gives for its new table. Spark makes properties of them. */
  private def options(properties: util.Map[String, String]): Map[String, String] = properties.asScala.toMap.collect {
    case (name, value) if name.startsWith(TableCatalog.OPTION_PREFIX) && StoreOptions.isOne(name.stripPrefix(TableCatalog.OPTION_PREFIX)) =>
      name.stripPrefix(TableCatalog.OPTION_PREFIX) -> value
  }
}
