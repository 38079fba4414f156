package headwater.spark

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.{EliminateSubqueryAliases, UnresolvedLeafNode, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode, View}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_RELATION
import org.apache.spark.sql.execution.datasources.v2.{ChangelogTable, DataSourceV2Relation}

/** A call of `table_changes` or `table_changes_by_path`. */
case class TableChangesCall(function: String, arguments: Seq[Expression]) extends UnresolvedLeafNode {
  override def nodeName: String = function
}

/** The changes of `child` once that is known to be a Delta table; `function` is what asked for them, none where it was a reader's option. */
case class ChangesOf(child: LogicalPlan, bounds: Any, function: Option[String]) extends UnaryNode {
  override lazy val resolved: Boolean = false
  override def output: Seq[Attribute] = Nil
  override def nodeName: String = function.getOrElse("changes")
  override def simpleString(maxFields: Int): String = nodeName
  override protected def withNewChildInternal(newChild: LogicalPlan): ChangesOf = copy(child = newChild)
}

/** Finds tables read with the option for changes, before Spark resolves them and with them the columns of the query around. */
case class FindChangeReads(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUpWithPruning(_.containsPattern(UNRESOLVED_RELATION)) {
    case relation: UnresolvedRelation
        if !relation.isStreaming && relation.getTagValue(FindChangeReads.Found).isEmpty && HeadwaterChanges.asked(session, relation.options) =>
      val found = relation.copy()
      found.copyTagsFrom(relation)
      found.setTagValue(FindChangeReads.Found, ())
      ChangesOf(found, HeadwaterChanges.bounds(session, relation.options), None)
  }
}

private object FindChangeReads {
  val Found: TreeNodeTag[Unit] = TreeNodeTag[Unit]("headwater_changes_found")
}

/** Turns every way to ask for the changes of a table into the relations that read them. */
case class ResolveTableChanges(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case TableChangesCall(function, arguments) =>
      val call = Bridge.call(
        new StatementContext(session), "bounds_of_call", "function" -> function, "arguments" -> arguments.map(HeadwaterChanges.describe(session, _)))
      val table = call.get("table").asText()
      if (function == TableChangesFunctions.ByPath) HeadwaterChanges.load(session, HeadwaterTable.path(session, table), call.get("bounds")).toPlan(None)
      else ChangesOf(UnresolvedRelation(CatalystSqlParser.parseMultipartIdentifier(table)), call.get("bounds"), Some(function))
    case ChangesOf(child, bounds, function) if child.resolved => EliminateSubqueryAliases(child) match {
      case DataSourceV2Relation(_: HeadwaterTable, _, _, _, _, _) => child.transform {
        case DataSourceV2Relation(table: HeadwaterTable, _, _, _, _, _) =>
          HeadwaterChanges.load(session, table.path, bounds, "timeTravel" -> !table.asked.isLatest).toPlan(None)
      }
      case other if function.isDefined || other.isInstanceOf[View] =>
        throw HeadwaterDataSource.refused(session, "not_delta", Map("command" -> "READING CHANGES", "name" -> ResolveTableChanges.name(child)))
      case _ => child
    }
    case DataSourceV2Relation(changes: HeadwaterChanges, output, _, _, _, _) => changes.toPlan(Some(output))
    case DataSourceV2Relation(ChangelogTable(changes: HeadwaterChanges, _, _), output, _, _, _, _) => changes.toPlan(Some(output))
  }
}

private object ResolveTableChanges {
  private def name(plan: LogicalPlan): String = plan match {
    case alias: org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias => alias.identifier.toString
    case other => other.nodeName
  }
}

object TableChangesFunctions {
  val ByPath = "table_changes_by_path"

  val All: Seq[(FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan)] = Seq("table_changes", ByPath).map { name =>
    (FunctionIdentifier(name), new ExpressionInfo(classOf[TableChangesCall].getName, name), (arguments: Seq[Expression]) => TableChangesCall(name, arguments))
  }
}
