package headwater.spark.scan.tables

import scala.jdk.CollectionConverters._

import headwater.spark.HeadwaterException
import headwater.spark.bridge.TableLocation
import headwater.spark.catalog.{CatalogRelation, HeadwaterTable, TableVersion}
import headwater.spark.changes.FindChangeReads
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.{DeleteFromTable, LogicalPlan, MergeIntoTable, UnresolvedDataSource, UpdateTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.headwater.{DefaultTime, SparkInternals}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Reads the Delta tables of a query as of the time that the session or a view has as its default, unless the query says itself which
 * version it reads. It looks before Spark resolves anything, because an older version may have other columns. Tables that a statement
 * writes to stay what they are.
 */
case class TravelByDefault(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = DefaultTime.of(session).fold(plan)(travel(plan, _))

  private def travel(plan: LogicalPlan, time: DefaultTime.Value): LogicalPlan = plan match {
    case _: DeleteFromTable | _: UpdateTable => plan
    case merge: MergeIntoTable => merge.copy(sourceTable = travel(merge.sourceTable, time))
    case named: UnresolvedRelation
        if named.isStreaming || isNewest(named.options) || named.getTagValue(FindChangeReads.Found).isDefined => named
    case named: UnresolvedRelation =>
      try asOf(named, time)
      catch { case e: HeadwaterException if e.getCondition == "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION" && refreshes => named }
    case read: UnresolvedDataSource if !read.isStreaming && !isNewest(new CaseInsensitiveStringMap(read.options.asJava)) =>
      SparkInternals.loaded(session, read) match {
        case relation: DataSourceV2Relation => travelled(relation, time)
        case other => other
      }
    case other => other.mapChildren(travel(_, time))
  }

  private def asOf(named: UnresolvedRelation, time: DefaultTime.Value): LogicalPlan = {
    val resolved = DefaultTime.within(Some(time))(SparkInternals.analyzer(session).ResolveRelations(named)).transform {
      case relation: DataSourceV2Relation => travelled(relation, time)
    }
    // What a temporary view of a DataFrame has resolved already.
    PinSnapshots.pin(resolved, index => Some(TableState.of(asOf(index.tableLocation, None, time))))
  }

  /** Whether `spark.catalog.refreshTable` asks, which reads no row: it looks a table up as a query does, and nothing else says so. */
  private def refreshes: Boolean = StackWalker.getInstance().walk[java.lang.Boolean](_.anyMatch(frame =>
    frame.getMethodName == "refreshTable" && frame.getClassName.startsWith("org.apache.spark.sql.")))

  private def isNewest(options: CaseInsensitiveStringMap): Boolean = options.getBoolean("newestVersion", false)

  private def asOf(location: TableLocation, entry: Option[CatalogTable], time: DefaultTime.Value): HeadwaterTable = {
    val moment = TableVersion.moment(time.text, time.zone)
    HeadwaterTable.load(session, location, TableVersion(timestamp = Some(moment), mayBeLater = true), entry)
  }

  private def travelled(relation: DataSourceV2Relation, time: DefaultTime.Value): LogicalPlan = relation match {
    case CatalogRelation(table: HeadwaterTable, _, options) if table.asked.isLatest && !isNewest(options) =>
      val read = DataSourceV2Relation.create(asOf(table.location, table.catalogTable, time), relation.catalog, relation.identifier, options)
      read.copyTagsFrom(relation)
      read
    case _ => relation
  }
}
