package headwater.spark

import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.headwater.SparkInternals

/** The index of a relation that a DELETE, UPDATE or MERGE is about; the statement is read off the table it carries. */
final class DmlTargetIndex(val table: HeadwaterTable)
    extends HeadwaterFileIndex(table.session, table.path, TableState.of(table), live = true, table.partitionSchema, Map.empty)

object DmlTarget {
  /** The target Spark resolves a statement against: no column is NOT NULL and none CHAR or VARCHAR, which the rewrite sees to. */
  def apply(table: HeadwaterTable, seen: Seq[AttributeReference]): LogicalRelation = {
    val relation = table.relationOver(new DmlTargetIndex(table), Map.empty)
    val known = seen.map(column => column.name -> column.exprId).toMap
    val output = SparkInternals.undeclared(SparkInternals.attributes(SparkInternals.asNullable(table.tableSchema)))
    relation.copy(output = output.map(column => known.get(column.name).map(column.withExprId).getOrElse(column).asInstanceOf[AttributeReference]))
  }

  def unapply(plan: LogicalPlan): Option[(LogicalRelation, HeadwaterTable)] = EliminateSubqueryAliases(plan) match {
    case relation @ LogicalRelation(HadoopFsRelation(index: DmlTargetIndex, _, _, _, _, _), _, _, _, _) => Some((relation, index.table))
    case _ => None
  }
}

/** A target as Spark's catalog gave it, not yet one of these. */
object PendingTarget {
  def unapply(plan: LogicalPlan): Option[HeadwaterTable] = EliminateSubqueryAliases(plan) match {
    case DataSourceV2Relation(table: HeadwaterTable, _, _, _, _, _) => Some(table)
    case _ => None
  }

  /** The same target over a table, its aliases kept. */
  def replace(plan: LogicalPlan, table: HeadwaterTable): LogicalPlan = plan.transform {
    case DataSourceV2Relation(_: HeadwaterTable, output, _, _, _, _) => DmlTarget(table, output)
  }
}
