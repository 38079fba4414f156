package headwater.spark.write

import scala.jdk.CollectionConverters._

import headwater.spark.catalog.{HeadwaterStagedTable, HeadwaterTable}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, OverwriteByExpression}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Matches an overwrite of the rows that match new ones: by [[ReplaceCriteria]], or by a writer's options that ask for the same. */
object ReplacingOverwrite {
  def unapply(plan: LogicalPlan): Option[(OverwriteByExpression, DataSourceV2Relation, HeadwaterTable)] = plan match {
    case overwrite @ OverwriteByExpression(
          relation @ DataSourceV2Relation(table: HeadwaterTable, _, _, _, _, _),
          condition,
          _,
          options,
          _,
          _,
          _,
          _)
        if !table.isInstanceOf[HeadwaterStagedTable] &&
          (condition.isInstanceOf[ReplaceCriteria] ||
            (condition == Literal.TrueLiteral && ReplaceCriteria.asked(options ++ relation.options.asScala))) =>
      Some((overwrite, relation, table))
    case _ => None
  }
}
