package headwater.spark.write

import scala.jdk.CollectionConverters._

import headwater.spark.catalog.{CatalogRelation, HeadwaterStagedTable, HeadwaterTable}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, OverwriteByExpression}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation

/** Matches an overwrite of the rows that match new ones: by [[ReplaceCriteria]], or by a writer's options that ask for the same. */
object ReplacingOverwrite {
  def unapply(plan: LogicalPlan): Option[(OverwriteByExpression, DataSourceV2Relation, HeadwaterTable)] = plan match {
    case overwrite: OverwriteByExpression => overwrite.table match {
        case relation @ CatalogRelation(table: HeadwaterTable, _, _)
            if !table.isInstanceOf[HeadwaterStagedTable] && replaces(overwrite, relation) => Some((overwrite, relation, table))
        case _ => None
      }
    case _ => None
  }

  private def replaces(overwrite: OverwriteByExpression, relation: DataSourceV2Relation): Boolean = overwrite.deleteExpr match {
    case _: ReplaceCriteria => true
    case Literal.TrueLiteral => ReplaceCriteria.asked(overwrite.writeOptions ++ relation.options.asScala)
    case _ => false
  }
}
