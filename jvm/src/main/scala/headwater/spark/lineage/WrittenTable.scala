package headwater.spark.lineage

import headwater.spark.bridge.{NotedCommit, TableLocation}
import headwater.spark.bridge.messages.MadeCommit
import headwater.spark.catalog.{CatalogRelation, HeadwaterStagedTable, HeadwaterTable}
import headwater.spark.dml.HeadwaterDmlCommand
import headwater.spark.statements.{CloneCommand, HeadwaterChangeCommand}
import headwater.spark.write.{HeadwaterReplaceCommand, WriteTarget}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, V2CreateTablePlan, V2WriteCommand}
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.types.StructType

/**
 * A table that an execution writes.
 *
 * @param name the name of its entry in a catalog
 * @param commit what was committed; none while the execution runs, or if there was nothing to commit
 */
final class WrittenTable(
    val session: SparkSession,
    val location: TableLocation,
    val name: Option[TableIdentifier],
    columns: => StructType,
    val commit: Option[MadeCommit]) {
  lazy val schema: StructType = columns
}

object WrittenTable {
  /** Once the execution has committed, its commits say which tables it writes; before, those plans do that name one. */
  def of(plan: LogicalPlan): Seq[WrittenTable] = NotedCommit.of(plan) match {
    case Seq() => target(plan).map(table => new WrittenTable(table.session, table.location, entryOf(table), table.tableSchema, None)).toSeq
    case commits => commits.map { noted =>
        val name = noted.location.entry.map(_.identifier).orElse(created(plan).filter(_ => commits.size == 1))
        def read = HeadwaterTable.pinned(noted.session, noted.location, noted.commit.version).tableSchema
        new WrittenTable(noted.session, noted.location, name, read, Some(noted.commit))
      }
  }

  private def entryOf(table: HeadwaterTable): Option[TableIdentifier] = table.catalogTable.map(_.identifier)

  private def target(plan: LogicalPlan): Option[HeadwaterTable] = plan match {
    case command: HeadwaterDmlCommand => Some(command.table)
    case command: HeadwaterReplaceCommand => Some(command.table)
    case command: HeadwaterChangeCommand => Some(command.table)
    case write: V2WriteCommand => write.table match {
        case relation: DataSourceV2Relation => relation match {
            case CatalogRelation(_: HeadwaterStagedTable, _, _) => None
            case CatalogRelation(WriteTarget(_: HeadwaterStagedTable, _, _, _, _), _, _) => None
            case CatalogRelation(table: HeadwaterTable, _, _) => Some(table)
            case CatalogRelation(target: WriteTarget, _, _) => Some(target.table)
            case _ => None
          }
        case _ => None
      }
    case _ => None
  }

  /** The name of a table that a plan creates: it has no entry until its commit is made. */
  private def created(plan: LogicalPlan): Option[TableIdentifier] = plan match {
    case create: V2CreateTablePlan if create.name.resolved => named(create.tableName)
    case clone: CloneCommand => named(clone.target)
    case _ => None
  }

  /** A table may be named by its path. */
  private def named(name: Identifier): Option[TableIdentifier] =
    Option.unless(name.name().contains("/"))(TableIdentifier(name.name(), name.namespace().lastOption))
}
