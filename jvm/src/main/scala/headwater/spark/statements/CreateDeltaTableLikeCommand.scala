package headwater.spark.statements

import scala.jdk.CollectionConverters._

import headwater.spark.shims.AnalysisShim
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogUtils}
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog, TableInfo}
import org.apache.spark.sql.connector.expressions.{Expressions, Transform}
import org.apache.spark.sql.execution.command.{CreateTableLikeCommand, LeafRunnableCommand}
import org.apache.spark.sql.headwater.SparkInternals

/**
 * CREATE TABLE … LIKE a view or a table of another format … USING delta: takes its columns and partitioning. Spark itself would only make
 * an entry in the metastore.
 */
case class CreateDeltaTableLikeCommand(like: CreateTableLikeCommand) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val catalog = SparkInternals.catalog(session)
    val database = like.targetTable.database.getOrElse(SparkInternals.sessionCatalog(session).getCurrentDatabase)
    val ident = Identifier.of(Array(database), like.targetTable.table)
    if (!catalog.tableExists(ident)) catalog.createTable(ident, definition(CreateDeltaTableLikeCommand.source(session, like)))
    else if (!like.ifNotExists) throw new TableAlreadyExistsException(ident)
    Nil
  }

  private def definition(source: CatalogTable): TableInfo = {
    val location = like.fileFormat.locationUri.map(TableCatalog.PROP_LOCATION -> CatalogUtils.URIToString(_))
    new TableInfo.Builder()
      .withColumns(SparkInternals.columns(SparkInternals.declaredTypes(source.schema)))
      .withPartitions(source.partitionColumnNames.map(name => Expressions.identity("`" + name.replace("`", "``") + "`"): Transform).toArray)
      .withProperties((like.properties ++ location + (TableCatalog.PROP_PROVIDER -> "delta")).asJava)
      .build()
  }
}

object CreateDeltaTableLikeCommand {
  def isDelta(session: SparkSession, like: CreateTableLikeCommand): Boolean = {
    def ofView = Option.when(AnalysisShim.isView(source(session, like)))(SparkInternals.conf(session).defaultDataSourceName)
    like.fileFormat.inputFormat.isEmpty && like.provider.orElse(ofView).exists(_.equalsIgnoreCase("delta"))
  }

  private def source(session: SparkSession, like: CreateTableLikeCommand): CatalogTable =
    SparkInternals.sessionCatalog(session).getTempViewOrPermanentTableMetadata(like.sourceTable)
}
