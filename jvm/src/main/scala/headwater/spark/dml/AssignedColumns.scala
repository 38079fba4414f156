package headwater.spark.dml

import scala.util.Try

import org.apache.spark.sql.catalyst.analysis.{Resolver, UnresolvedAttribute}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * The columns and fields that a MERGE assigns to, before its target has those that it adds. What the target lacks is looked for in the
 * source, by the same name.
 */
class AssignedColumns(merge: MergeIntoTable, resolver: Resolver) {
  /** The path of an assignment's key: names of a column and of fields in it, without the tables' names. None if neither table has it. */
  def path(assignment: Assignment): Option[Seq[String]] = assignment.key match {
    case UnresolvedAttribute(parts) => inTarget(parts).orElse(inSource(parts)).orElse(ofTarget(parts).flatMap(inSource))
    case key => AssignedColumns.path(key)
  }

  /** The MERGE with keys that only the source has named without it: they become columns of the target. */
  def withoutSource(merge: MergeIntoTable): MergeIntoTable = {
    def named(assignments: Seq[Assignment]) = assignments.map {
      case assignment @ Assignment(UnresolvedAttribute(parts), _) if inTarget(parts).isEmpty =>
        inSource(parts).filter(_.size < parts.size).map(path => assignment.copy(key = UnresolvedAttribute(path))).getOrElse(assignment)
      case assignment => assignment
    }
    def changed(action: MergeAction) = action match {
      case update: UpdateAction => update.copy(assignments = named(update.assignments))
      case insert: InsertAction => insert.copy(assignments = named(insert.assignments))
      case other => other
    }
    merge.copy(matchedActions = merge.matchedActions.map(changed), notMatchedActions = merge.notMatchedActions.map(changed))
  }

  /** What follows the target's name or alias, where the parts begin with it. */
  private def ofTarget(parts: Seq[String]): Option[Seq[String]] =
    merge.targetTable.output.headOption.map(_.qualifier).toSeq.flatMap(_.tails.toSeq).filter(_.nonEmpty)
      .collectFirst {
        case name if parts.size > name.size && name.zip(parts).forall { case (a, b) => resolver(a, b) } => parts.drop(name.size)
      }

  private def inTarget(parts: Seq[String]): Option[Seq[String]] = in(merge.targetTable, parts)

  private def inSource(parts: Seq[String]): Option[Seq[String]] = in(merge.sourceTable, parts)

  /** A field that is not there, and a name that is not unique, are errors here; Spark finds them again and says so. */
  private def in(plan: LogicalPlan, parts: Seq[String]): Option[Seq[String]] =
    Try(plan.resolve(parts, resolver)).toOption.flatten.flatMap(AssignedColumns.path)
}

object AssignedColumns {
  def of(action: MergeAction): Seq[Assignment] = action match {
    case update: UpdateAction => update.assignments
    case InsertAction(_, assignments) => assignments
    case _ => Nil
  }

  private def path(expression: Expression): Option[Seq[String]] = expression match {
    case column: Attribute if column.resolved => Some(Seq(column.name))
    case field: GetStructField => path(field.child).map(_ :+ field.extractFieldName)
    case Alias(child, _) => path(child)
    case _ => None
  }
}
