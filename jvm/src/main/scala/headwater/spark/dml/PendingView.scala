package headwater.spark.dml

import org.apache.spark.sql.catalyst.analysis.{EliminateSubqueryAliases, NamedRelation}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * A temporary view as the target of a DELETE, UPDATE or MERGE, before Spark resolves the statement against it. Spark leaves assignments to
 * it alone, as it does for a [[PendingTarget]].
 *
 * @param columns the view's columns, each of one [[DmlTarget]]
 */
final case class PendingView(view: Seq[String], columns: Project) extends LeafNode with NamedRelation {
  override def name: String = view.last
  override def output: Seq[Attribute] = columns.output
  override def skipSchemaResolution: Boolean = true

  def opened: LogicalPlan = SubqueryAlias(view, columns)
}

object PendingView {
  def find(plan: LogicalPlan): Option[PendingView] = Some(EliminateSubqueryAliases(plan)).collect { case view: PendingView => view }

  def open(plan: LogicalPlan): LogicalPlan = plan.transform { case view: PendingView => view.opened }

  /**
   * The view's name, and the resolved statement with the table and its columns in place of those of the view; None if its target is no
   * view.
   */
  def inlined(statement: LogicalPlan): Option[(String, LogicalPlan)] = {
    val target = statement match {
      case DeleteFromTable(table, _) => Some(table)
      case UpdateTable(table, _, _) => Some(table)
      case merge: MergeIntoTable => Some(merge.targetTable)
      case _ => None
    }
    target.map(plan => (plan, EliminateSubqueryAliases(plan))).collect {
      case (aliased, Project(columns, relation @ DmlTarget(_, _))) =>
        val values = columns.map(column => column.exprId -> valueOf(column)).toMap
        val table = statement match {
          case delete: DeleteFromTable => delete.copy(table = relation)
          case update: UpdateTable => update.copy(table = relation)
          case merge: MergeIntoTable => merge.copy(targetTable = relation)
          case other => other
        }
        val name = aliased.collect { case SubqueryAlias(identifier, _: Project) =>
          (identifier.qualifier :+ identifier.name).mkString(".")
        }.mkString
        name -> assignable(table.transformAllExpressionsWithSubqueries {
          case column: AttributeReference if values.contains(column.exprId) => replaced(column, values(column.exprId))
          case OuterReference(column: AttributeReference) if values.contains(column.exprId) =>
            replaced(column, values(column.exprId)).transform { case inner: AttributeReference => OuterReference(inner) }
        })
    }
  }

  /** The table's column that a view's column is: Spark reads those of CHAR with their padding. None if the view computes it. */
  def column(value: Expression): Option[Attribute] = value match {
    case attribute: Attribute => Some(attribute)
    case padding: StaticInvoke if padding.functionName == "readSidePadding" => column(padding.arguments.head)
    case Alias(inner, _) => column(inner)
    case _ => None
  }

  private def assignable(statement: LogicalPlan): LogicalPlan = statement.transformExpressions {
    case assignment: Assignment => assignment.copy(key = column(assignment.key).getOrElse(assignment.key))
  }

  private def replaced(column: AttributeReference, value: Expression): Expression = value match {
    case attribute: Attribute => attribute.withQualifier(column.qualifier)
    case other => other
  }

  def valueOf(column: NamedExpression): Expression = column match {
    case Alias(value, _) => value
    case other => other
  }
}
