package headwater.spark.catalog

import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations
import org.apache.spark.sql.connector.write.{RowLevelOperationBuilder, RowLevelOperationInfo}

/**
 * A table as those load it who ask what it can do: Spark's pipelines run MERGE only on tables of this interface.
 *
 * The targets of statements, which Spark loads with write privileges, are none of these. Spark would otherwise plan their DELETE, UPDATE
 * and MERGE itself, before our rules see them.
 */
class MergeableTable(table: HeadwaterTable)
    extends HeadwaterTable(table.session, table.path, table.asked, table.catalogTable, table.info, table.store)
    with SupportsRowLevelOperations {

  override def newRowLevelOperationBuilder(info: RowLevelOperationInfo): RowLevelOperationBuilder =
    throw new IllegalStateException(s"Spark planned a ${info.command} on ${name()} that Headwater plans")
}
