package headwater.spark.dml

import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.SparkInternals

/** The target of a DELETE, UPDATE or MERGE, as Spark resolves the statement against it. */
object DmlTarget {
  /** No column is NOT NULL, CHAR or VARCHAR: the rewrite checks these rules. */
  def apply(table: HeadwaterTable, seen: Seq[AttributeReference]): LogicalRelation = {
    val relation = table.relationOver(new DmlTargetIndex(table))
    val known = seen.map(column => column.name -> column.exprId).toMap
    val output = SparkInternals.undeclared(SparkInternals.attributes(SparkInternals.asNullable(table.tableSchema)))
    relation.copy(output =
      output.map(column => known.get(column.name).map(column.withExprId).getOrElse(column).asInstanceOf[AttributeReference]))
  }

  def unapply(plan: LogicalPlan): Option[(LogicalRelation, HeadwaterTable)] = EliminateSubqueryAliases(plan) match {
    case relation @ LogicalRelation(HadoopFsRelation(index: DmlTargetIndex, _, _, _, _, _), _, _, _, _) => Some((relation, index.table))
    case _ => None
  }
}
