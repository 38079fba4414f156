package headwater.spark.statements

import scala.jdk.CollectionConverters._

import headwater.spark.HeadwaterCatalog
import headwater.spark.shims.{AnalysisShim, NewTable, StagingShim}
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogUtils}
import org.apache.spark.sql.connector.catalog.{Column, Identifier, TableCatalog}
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.execution.command.{CreateTableLikeCommand, LeafRunnableCommand}
import org.apache.spark.sql.headwater.SparkInternals

/**
 * CREATE TABLE … LIKE where the table or its model is a Delta table: takes columns and partitioning of a view or a table of any format.
 * Spark itself would only make an entry in the metastore.
 */
case class CreateDeltaTableLikeCommand(like: CreateTableLikeCommand) extends LeafRunnableCommand {
  import CreateDeltaTableLikeCommand._

  override def run(session: SparkSession): Seq[Row] = {
    val catalog = SparkInternals.catalog(session)
    val ident = identifier(session, like.targetTable)
    if (catalog.tableExists(ident)) {
      if (!like.ifNotExists) throw new TableAlreadyExistsException(ident)
    } else (catalog, model(session, like)) match {
      case (own: HeadwaterCatalog, Right(source)) =>
        val table = own.loadTable(source)
        own.createLike(ident, definition(table.columns, table.partitioning, table.properties.get(TableCatalog.PROP_PROVIDER)), table)
      case (_, Right(source)) => throw new IllegalStateException(s"no catalog of ours has $source")
      case (_, Left(entry)) =>
        val partitions = entry.partitionColumnNames.map(name => Expressions.identity("`" + name.replace("`", "``") + "`"): Transform)
        StagingShim.createIn(
          catalog,
          ident,
          definition(SparkInternals.columns(SparkInternals.declaredTypes(entry.schema)), partitions.toArray, "delta"))
    }
    Nil
  }

  private def definition(columns: Array[Column], partitions: Array[Transform], provider: String): NewTable = {
    val location = like.fileFormat.locationUri.map(TableCatalog.PROP_LOCATION -> CatalogUtils.URIToString(_))
    val properties = like.properties ++ location + (TableCatalog.PROP_PROVIDER -> like.provider.getOrElse(provider))
    NewTable(columns, partitions, properties.asJava)
  }
}

object CreateDeltaTableLikeCommand {
  def concerns(session: SparkSession, like: CreateTableLikeCommand): Boolean = like.fileFormat.inputFormat.isEmpty &&
    (like.provider.exists(isDelta) ||
      (model(session, like) match {
        case Right(_) => true
        case Left(entry) => like.provider.isEmpty && AnalysisShim.isView(entry) &&
          isDelta(SparkInternals.conf(session).defaultDataSourceName)
      }))

  private def isDelta(provider: String): Boolean = provider.equalsIgnoreCase("delta")

  private def identifier(session: SparkSession, table: TableIdentifier): Identifier =
    Identifier.of(Array(table.database.getOrElse(SparkInternals.sessionCatalog(session).getCurrentDatabase)), table.table)

  /** What the table is to be like: the name of a Delta table, or the catalog's entry of a view or another table. */
  private def model(session: SparkSession, like: CreateTableLikeCommand): Either[CatalogTable, Identifier] = {
    val ident = identifier(session, like.sourceTable)
    SparkInternals.catalog(session) match {
      case own: HeadwaterCatalog if own.isPath(ident) => Right(ident)
      case _ =>
        val entry = SparkInternals.sessionCatalog(session).getTempViewOrPermanentTableMetadata(like.sourceTable)
        if (entry.provider.exists(isDelta)) Right(ident) else Left(entry)
    }
  }
}
