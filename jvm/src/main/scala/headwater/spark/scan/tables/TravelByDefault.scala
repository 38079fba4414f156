package headwater.spark.scan.tables

import headwater.spark.DeltaDataSource
import headwater.spark.catalog.{CatalogRelation, HeadwaterTable, TableVersion}
import headwater.spark.changes.FindChangeReads
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.plans.logical.{DeleteFromTable, LogicalPlan, MergeIntoTable, UnresolvedDataSource, UpdateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.headwater.{DefaultTime, SparkInternals}

/**
 * Reads the Delta tables of a query as of the time that the session or a view has as its default, unless the query says itself which version
 * it reads. It looks before Spark resolves anything, because an older version may have other columns. Tables that a statement writes to stay
 * what they are.
 */
case class TravelByDefault(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = DefaultTime.of(session).map { case (text, zone) =>
    travel(plan, TableVersion(timestamp = Some(DeltaDataSource.timestamp(text, zone)), mayBeLater = true))
  }.getOrElse(plan)

  private def travel(plan: LogicalPlan, time: TableVersion): LogicalPlan = plan match {
    case _: DeleteFromTable | _: UpdateTable => plan
    case merge: MergeIntoTable => merge.copy(sourceTable = travel(merge.sourceTable, time))
    case named: UnresolvedRelation if named.isStreaming || named.getTagValue(FindChangeReads.Found).isDefined => named
    case named: UnresolvedRelation => SparkInternals.analyzer(session).ResolveRelations(named).transform {
        case relation: DataSourceV2Relation => travelled(relation, time)
      }
    case read: UnresolvedDataSource if !read.isStreaming =>
      SparkInternals.loaded(session, read) match {
        case relation: DataSourceV2Relation => travelled(relation, time)
        case other => other
      }
    case other => other.mapChildren(travel(_, time))
  }

  private def travelled(relation: DataSourceV2Relation, time: TableVersion): LogicalPlan = relation match {
    case CatalogRelation(table: HeadwaterTable, _, options) if table.asked.isLatest =>
      val older = HeadwaterTable.load(session, table.location, time, table.catalogTable)
      val read = DataSourceV2Relation.create(older, relation.catalog, relation.identifier, options)
      read.copyTagsFrom(relation)
      read
    case _ => relation
  }
}
