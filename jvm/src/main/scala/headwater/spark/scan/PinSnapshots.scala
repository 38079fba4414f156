package headwater.spark.scan

import java.util.{Collections, WeakHashMap}

import scala.collection.mutable

import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.RefreshTableRequest
import headwater.spark.catalog.{HeadwaterTable, TableVersion}
import org.apache.spark.sql.catalyst.QueryPlanningTracker
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat

/**
 * Fixes the version that every live relation of a query reads, once, when Spark optimizes the query. So a query, with its subqueries, sees
 * one snapshot of each table, and a DataFrame that runs again sees the latest one.
 */
object PinSnapshots extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    lazy val states = ofThisQuery()
    pin(plan, index => Some(states.getOrElseUpdate(index.path, TableState.of(latest(index)))))
  }

  /** As the session sees the table that the relation is of: Spark has what one session cached read again by another one. */
  private def latest(index: HeadwaterFileIndex): HeadwaterTable = {
    val info = Bridge.call(index.session, RefreshTableRequest(index.path, index.state.version, index.state.tableId), index.tableLocation)
    new HeadwaterTable(index.session, index.path, TableVersion.Latest, None, info, index.store)
  }

  // Spark optimizes subqueries separately from the query around them, one after the other, on one thread and with one planning tracker.
  private val states = Collections.synchronizedMap(new WeakHashMap[QueryPlanningTracker, mutable.Map[String, TableState]]())

  /** Pins live relations to the states that are known for them. */
  def pin(plan: LogicalPlan, state: HeadwaterFileIndex => Option[TableState]): LogicalPlan = plan.transformWithSubqueries {
    case relation @ LogicalRelation(
          files @ HadoopFsRelation(index: HeadwaterFileIndex, _, _, _, format: HeadwaterParquetFileFormat, _),
          _,
          _,
          _,
          _)
        if index.live =>
      state(index).map { known =>
        relation.copy(relation = files.copy(location = index.pinned(known), fileFormat = format.at(known))(files.sparkSession))
      }.getOrElse(relation)
  }

  private def ofThisQuery(): mutable.Map[String, TableState] = QueryPlanningTracker.get match {
    case Some(query) => states.computeIfAbsent(query, _ => mutable.HashMap.empty)
    case None => mutable.HashMap.empty
  }
}
