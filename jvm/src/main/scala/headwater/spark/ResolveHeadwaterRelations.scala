package headwater.spark

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{DeleteFromTable, LogicalPlan, MergeIntoTable, UpdateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Turns a table that is read into the file relation Spark's own Parquet path scans. */
case class ResolveHeadwaterRelations(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    // The target of a row-level command stays a table.
    case _: DeleteFromTable | _: UpdateTable | _: MergeIntoTable => plan
    case _ => plan.resolveOperatorsDown {
      case relation @ DataSourceV2Relation(table: HeadwaterTable, output, _, _, options, _) =>
        val read = table.toRelation(options.asCaseSensitiveMap().asScala.toMap)
        read.copy(output = read.output.zip(output).map { case (column, seen) =>
          seen.withName(column.name).asInstanceOf[org.apache.spark.sql.catalyst.expressions.AttributeReference]
        })
    }
  }
}

/**
 * Fixes the version every live relation of a query reads, once, when the query is optimised: a query sees one state of each table, and a
 * DataFrame that is run again sees the newest.
 */
case class PinSnapshots(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val states = scala.collection.mutable.HashMap.empty[String, TableState]
    plan.transformWithSubqueries {
      case relation @ LogicalRelation(files @ HadoopFsRelation(index: HeadwaterFileIndex, _, _, _, _, _), _, _, _, _) if index.live =>
        val state = states.getOrElseUpdate(index.path, TableState.of(latest(index)))
        relation.copy(relation = files.copy(
          location = index.pinned(state),
          fileFormat = files.fileFormat.asInstanceOf[org.apache.spark.sql.headwater.HeadwaterParquetFileFormat].at(state))(files.sparkSession))
    }
  }

  private def latest(index: HeadwaterFileIndex): HeadwaterTable = {
    val info = Bridge.call(
      new StatementContext(session), "refresh_table",
      "table" -> index.path,
      "version" -> index.state.version,
      "tableId" -> index.state.tableId)
    new HeadwaterTable(session, index.path, TableVersion.Latest, None, info)
  }
}
