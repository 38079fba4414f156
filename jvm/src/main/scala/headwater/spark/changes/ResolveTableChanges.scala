package headwater.spark.changes

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.{Bridge, TableLocation}
import headwater.spark.bridge.messages.BoundsOfCallRequest
import headwater.spark.catalog.{CatalogRelation, HeadwaterTable, Refusals}
import headwater.spark.scan.tables.ReadOptions
import headwater.spark.shims.ChangelogShim
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{EliminateSubqueryAliases, UnresolvedRelation}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, View}
import org.apache.spark.sql.catalyst.rules.Rule

/** Turns `table_changes`, CHANGES FROM and the reader's option into the relations that read the changes. */
case class ResolveTableChanges(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case TableChangesCall(function, arguments) =>
      val named = Bridge.call(session, BoundsOfCallRequest(function, arguments.map(HeadwaterChangelog.describe(session, _))))
      if (function.endsWith(TableChangesFunctions.ByPath))
        HeadwaterChangelog.load(session, TableLocation(HeadwaterTable.path(session, named.table)), named.bounds, named.form).toPlan(None)
      else ChangesOf(UnresolvedRelation(CatalystSqlParser.parseMultipartIdentifier(named.table)), named.bounds, named.form, Some(function))
    case ChangesOf(child, bounds, form, function) if child.resolved =>
      EliminateSubqueryAliases(child) match {
        case CatalogRelation(_: HeadwaterTable, _, _) => child.transform {
            case relation @ CatalogRelation(table: HeadwaterTable, _, options) =>
              ReadOptions.check(session, relation)
              val location = table.reachedWith(options.asCaseSensitiveMap().asScala.toMap).location
              HeadwaterChangelog.load(session, location, bounds, form, timeTravel = !table.asked.isLatest).toPlan(None)
          }
        case other if function.isDefined || other.isInstanceOf[View] =>
          throw Refusals.notDelta(ResolveTableChanges.name(child), "READING CHANGES")
        case _ => child
      }
    case CatalogRelation(changes: HeadwaterChangelog, output, _) => changes.toPlan(Some(output))
    case CatalogRelation(ChangelogShim(changes: HeadwaterChangelog), output, _) => changes.toPlan(Some(output))
  }
}

private[spark] object ResolveTableChanges {
  private def name(plan: LogicalPlan): String = plan match {
    case alias: org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias => alias.identifier.toString
    case other => other.nodeName
  }
}
