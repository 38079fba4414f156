package headwater.spark.write

import headwater.spark.HeadwaterException
import headwater.spark.catalog.CatalogRelation
import org.apache.spark.sql.catalyst.expressions.Alias
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.headwater.SparkInternals

/**
 * Makes one write of the INSERTs into one table in a statement with several (`FROM … INSERT INTO t … INSERT INTO t …`). Spark runs the
 * commands of such a statement one after the other, each with a commit of its own, and the later ones would read what the first one wrote.
 */
object JoinInserts extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case union: Union if union.children.size > 1 && union.children.forall(write => write.resolved && target(write).isDefined) =>
      joined(union)
  }

  private def target(write: LogicalPlan): Option[WriteTarget] = write match {
    case write: V2WriteCommand => write.table match {
        case CatalogRelation(target: WriteTarget, _, _) => Some(target)
        case _ => None
      }
    case _ => None
  }

  private def joined(union: Union): LogicalPlan = {
    val writes = union.children.foldLeft(Vector.empty[LogicalPlan]) { (before, write) =>
      val last = before.lastIndexWhere(isSameTable(_, write))
      if (last < 0) before :+ write
      else both(before(last), write).map(before.updated(last, _)).getOrElse {
        // Its rows were to come from the version that the statement began with.
        target(write).filter(_.readsTable).foreach { own =>
          throw HeadwaterException("HEADWATER_INSERTS_OF_OWN_ROWS", "tableName" -> own.name())
        }
        before :+ write
      }
    }
    if (writes.size == 1) writes.head else union.copy(children = writes)
  }

  private def isSameTable(one: LogicalPlan, other: LogicalPlan): Boolean = target(one).map(_.table.path) == target(other).map(_.table.path)

  /** Two appends as one. */
  private def both(one: LogicalPlan, other: LogicalPlan): Option[LogicalPlan] = (one, other) match {
    case (first: AppendData, second: AppendData)
        if first.writeOptions == second.writeOptions && hasSameColumns(first.query, second.query) =>
      val rows = Union(renewed(first.query), renewed(second.query))
      val relation = first.table.asInstanceOf[DataSourceV2Relation]
      Some(first.copy(table = relation.copy(table = target(first).get.of(rows)), query = rows))
    case _ => None
  }

  private def hasSameColumns(one: LogicalPlan, other: LogicalPlan): Boolean = one.output.size == other.output.size &&
    one.output.zip(other.output).forall { case (a, b) => a.name == b.name && SparkInternals.isSameType(a.dataType, b.dataType) }

  /** The same rows: the columns of both queries may be those of one source. */
  private def renewed(query: LogicalPlan): LogicalPlan = Project(query.output.map(column => Alias(column, column.name)()), query)
}
