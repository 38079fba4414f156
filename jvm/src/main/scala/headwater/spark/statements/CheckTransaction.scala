package headwater.spark.statements

import headwater.spark.{DeltaDataSource, HeadwaterCatalog}
import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.InTransactionRequest
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{PersistedView, ResolvedIdentifier, ResolvedTable}
import org.apache.spark.sql.catalyst.plans.logical.{
  AlterTableCommand, Command, CreateTable, CreateTableAsSelect, LogicalPlan, TableSpecBase, TruncateTable, V2WriteCommand
}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.execution.command.CreateViewCommand
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.headwater.SparkInternals

/**
 * In a session that has begun a transaction, asks the handler whether a command of Spark's own may be part of it. Commands of ours ask it
 * anyway. A rule, and no check of the analyzer's, whose errors lose their SQLSTATE.
 */
case class CheckTransaction(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (SparkInternals.transaction(session).isDefined) plan.foreach {
      case stream: WriteToStream => Bridge.call(session, InTransactionRequest(stream.nodeName))
      case command: Command if !isOurs(command) => Bridge.call(session, InTransactionRequest(name(command)))
      case _ =>
    }
    plan
  }

  private def name(command: Command): String = command match {
    case view: CreateViewCommand if view.viewType == PersistedView => "CreatePersistedView"
    case other => other.nodeName
  }

  private def isOurs(command: Command): Boolean = command match {
    case write: V2WriteCommand => write.table match {
        case relation: DataSourceV2Relation => hasOurClass(relation.table)
        case _ => false
      }
    case alter: AlterTableCommand => alter.table match {
        case resolved: ResolvedTable => hasOurClass(resolved.table)
        case _ => false
      }
    case truncate: TruncateTable => truncate.table match {
        case resolved: ResolvedTable => hasOurClass(resolved.table)
        case _ => false
      }
    case create: CreateTable => creates(create.name, create.tableSpec)
    case create: CreateTableAsSelect => creates(create.name, create.tableSpec)
    case save: SaveIntoDataSourceCommand => save.dataSource.isInstanceOf[DeltaDataSource]
    case other => hasOurClass(other)
  }

  private def creates(name: LogicalPlan, table: TableSpecBase): Boolean = name match {
    case ResolvedIdentifier(catalog: HeadwaterCatalog, _) => catalog.creates(table.provider)
    case _ => false
  }

  private def hasOurClass(any: AnyRef): Boolean = CheckTransaction.Packages.exists(any.getClass.getName.startsWith)
}

object CheckTransaction {
  private val Packages = Seq("headwater.spark.", "org.apache.spark.sql.headwater.")
}
