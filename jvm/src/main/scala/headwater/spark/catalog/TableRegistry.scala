package headwater.spark.catalog

import java.net.URI
import java.util

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.TableLocation
import headwater.spark.shims.{NewTable, StagingShim}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{NoSuchDatabaseException, NoSuchNamespaceException, NoSuchTableException}
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTablePartition, CatalogTableType, CatalogUtils}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** Where a catalog has the entries of its tables, whatever their format. */
trait TableRegistry {
  def hasNamespace(namespace: Array[String]): Boolean

  /** The entry of a table; None if there is none. */
  def find(ident: Identifier): Option[CatalogTable]

  /** Where a table lies that nobody has chosen a place for. */
  def defaultLocation(ident: Identifier): Path

  /** A place that the catalog gives to one new table, with what it is reached with; None for [[defaultLocation]]. */
  def place(ident: Identifier): Option[TableLocation] = None

  /**
   * Adds an entry. Returns the table if the entry was made from it.
   *
   * @param found the table that is at the entry's location now
   */
  def add(entry: CatalogTable, ident: Identifier, table: NewTable, found: => HeadwaterTable): Option[HeadwaterTable]

  def move(ident: Identifier, to: URI): Unit

  /** Whether [[convert]] is possible: the catalog is Spark's own. */
  def converts: Boolean

  /** Makes the entry of a table of another format that of the Delta table which is at its place by now. */
  def convert(entry: CatalogTable): Unit

  /** The partitions that the catalog has of a table. */
  def partitions(entry: CatalogTable): Seq[CatalogTablePartition]

  /** The name of a table as entries have it. */
  def identifier(ident: Identifier): TableIdentifier
}

object TableRegistry {
  /** Spark's own, unless another catalog has put one of its own below ours. */
  def of(session: SparkSession, delegate: CatalogPlugin): TableRegistry = delegate match {
    case unity: UnityTables => new UnityRegistry(session, unity)
    case other: TableCatalog if !SparkInternals.isSessionCatalog(other) => new DelegateRegistry(session, other)
    case _ => ofSession(session)
  }

  /** Spark's own. */
  def ofSession(session: SparkSession): TableRegistry = new SessionRegistry(session)

  private class SessionRegistry(session: SparkSession) extends TableRegistry {
    private def catalog = SparkInternals.sessionCatalog(session)
    override def hasNamespace(namespace: Array[String]): Boolean = catalog.databaseExists(namespace.last)
    override def find(ident: Identifier): Option[CatalogTable] =
      // Any other failure must not be taken for a free name.
      try Some(catalog.getTableMetadata(identifier(ident)))
      catch { case _: NoSuchTableException | _: NoSuchNamespaceException | _: NoSuchDatabaseException => None }
    override def defaultLocation(ident: Identifier): Path = new Path(catalog.defaultTablePath(identifier(ident)))
    override def add(entry: CatalogTable, ident: Identifier, table: NewTable, found: => HeadwaterTable): Option[HeadwaterTable] =
      TableEntry.create(session, entry, found)
    override def move(ident: Identifier, to: URI): Unit = {
      val entry = catalog.getTableMetadata(identifier(ident))
      catalog.alterTable(entry.copy(storage = entry.storage.copy(locationUri = Some(to))))
    }
    override def converts: Boolean = true
    override def convert(entry: CatalogTable): Unit = {
      // A Hive metastore keeps the columns that it has, whatever is asked here.
      catalog.alterTable(entry.copy(
        provider = Some("delta"),
        schema = new StructType,
        partitionColumnNames = Nil,
        bucketSpec = None,
        properties = Map.empty,
        storage = entry.storage.copy(inputFormat = None, outputFormat = None, serde = None)))
      catalog.refreshTable(entry.identifier)
    }
    override def partitions(entry: CatalogTable): Seq[CatalogTablePartition] = catalog.listPartitions(entry.identifier)
    override def identifier(ident: Identifier): TableIdentifier = TableIdentifier(ident.name(), ident.namespace().lastOption)
  }

  private class DelegateRegistry(session: SparkSession, delegate: TableCatalog) extends TableRegistry {
    private def namespaces: Option[SupportsNamespaces] = delegate match {
      case catalog: SupportsNamespaces => Some(catalog)
      case _ => None
    }

    /** A catalog without namespaces has whatever its tables are created in. */
    override def hasNamespace(namespace: Array[String]): Boolean = namespaces.forall(_.namespaceExists(namespace))

    override def find(ident: Identifier): Option[CatalogTable] =
      if (delegate.tableExists(ident)) entry(delegate.loadTable(ident), identifier(ident)) else None

    override def defaultLocation(ident: Identifier): Path = {
      val ofNamespace =
        namespaces.flatMap(found => Option(found.loadNamespaceMetadata(ident.namespace()).get(SupportsNamespaces.PROP_LOCATION)))
      val parent = ofNamespace.map(new Path(_)).getOrElse(
        (delegate.name() +: ident.namespace().toSeq).foldLeft(new Path(SparkInternals.conf(session).warehousePath))(new Path(_, _)))
      new Path(parent, ident.name())
    }

    /** It also gets the columns. */
    override def add(entry: CatalogTable, ident: Identifier, table: NewTable, found: => HeadwaterTable): Option[HeadwaterTable] = {
      val properties = new util.HashMap[String, String](table.properties)
      properties.put(TableCatalog.PROP_PROVIDER, "delta")
      properties.put(TableCatalog.PROP_LOCATION, CatalogUtils.URIToString(entry.location))
      if (entry.tableType == CatalogTableType.EXTERNAL) properties.put(TableCatalog.PROP_EXTERNAL, "true")
      else properties.put(TableCatalog.PROP_IS_MANAGED_LOCATION, "true")
      // Those of a clone of another format are known once it is made.
      val read = Option.when(table.columns.isEmpty)(found)
      val described = read.map(made => NewTable(made.columns(), made.partitioning(), properties)).getOrElse(table)
      StagingShim.createIn(delegate, ident, NewTable(described.columns, described.partitions, properties))
      read
    }

    override def move(ident: Identifier, to: URI): Unit =
      delegate.alterTable(ident, TableChange.setProperty(TableCatalog.PROP_LOCATION, CatalogUtils.URIToString(to)))

    override def converts: Boolean = false
    override def convert(entry: CatalogTable): Unit = throw new UnsupportedOperationException("convert")
    override def partitions(entry: CatalogTable): Seq[CatalogTablePartition] = Nil

    override def identifier(ident: Identifier): TableIdentifier =
      TableIdentifier(ident.name(), ident.namespace().lastOption, ident.namespace().lastOption.map(_ => delegate.name()))
  }

  private class UnityRegistry(session: SparkSession, unity: UnityTables) extends DelegateRegistry(session, unity) {
    override def find(ident: Identifier): Option[CatalogTable] = unity.find(ident).flatMap(entry(_, identifier(ident)))

    override def place(ident: Identifier): Option[TableLocation] = Some(unity.place(ident))
  }

  /** A catalog's table as an entry: as it is, or by its properties if these say where a Delta table is. */
  def entry(found: Table, identifier: => TableIdentifier): Option[CatalogTable] = SparkInternals.catalogTable(found).orElse {
    val properties = found match {
      case _: HeadwaterTable => Map.empty[String, String]
      case _ => found.properties.asScala.toMap
    }
    for {
      provider <- properties.get(TableCatalog.PROP_PROVIDER) if provider.equalsIgnoreCase("delta")
      location <- properties.get(TableCatalog.PROP_LOCATION)
    } yield CatalogTable(
      identifier = identifier,
      tableType =
        if (properties.get(TableCatalog.PROP_EXTERNAL).contains("true")) CatalogTableType.EXTERNAL else CatalogTableType.MANAGED,
      storage = CatalogStorageFormat.empty.copy(
        locationUri = Some(CatalogUtils.stringToURI(location)),
        properties = properties.collect {
          case (name, value) if name.startsWith(TableCatalog.OPTION_PREFIX) => name.stripPrefix(TableCatalog.OPTION_PREFIX) -> value
        }),
      schema = new StructType,
      provider = Some(provider),
      comment = properties.get(TableCatalog.PROP_COMMENT))
  }
}
