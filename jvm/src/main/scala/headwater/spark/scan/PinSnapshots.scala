package headwater.spark.scan

import java.util.{Collections, WeakHashMap}

import scala.collection.mutable

import headwater.spark.bridge.messages.{RefreshTableRequest, RefreshTablesRequest}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.QueryPlanningTracker
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat

/**
 * Fixes the version that every live relation of a query reads, once, when Spark optimizes the query. So a query, with its subqueries, sees
 * one snapshot of each table, and a DataFrame that runs again sees the latest one.
 */
case class PinSnapshots(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val live = plan.collectWithSubqueries { case PinSnapshots.LiveRelation(_, _, index, _) => index }
    if (live.isEmpty) plan
    else {
      val states = PinSnapshots.ofThisQuery()
      val unknown = live.distinctBy(_.path).filterNot(index => states.contains(index.path))
      val asked = unknown.map { index =>
        (reader(index), index, RefreshTableRequest(index.path, index.state.version, index.state.tableId))
      }
      unknown.zip(TablesTogether.ask(asked)(RefreshTablesRequest(_))).foreach { case (index, newest) =>
        states(index.path) = TableState.of(index.path, newest)
      }
      PinSnapshots.pin(plan, index => states.get(index.path), reader)
    }
  }

  /**
   * Spark has what one session cached read again by another one, and sessions share views. If just one of the two has begun a transaction
   * over several statements, the other one reads, and so nobody sees what is not committed.
   */
  private def reader(index: HeadwaterFileIndex): SparkSession = {
    val (here, there) = (SparkInternals.transaction(session), SparkInternals.transaction(index.session))
    if (here == there || there.isEmpty) index.session
    else if (here.isEmpty) session
    else SparkInternals.newSession(session)
  }
}

object PinSnapshots {

  // Spark optimizes subqueries separately from the query around them, one after the other, on one thread and with one planning tracker.
  private val states = Collections.synchronizedMap(new WeakHashMap[QueryPlanningTracker, mutable.Map[String, TableState]]())

  /** Pins live relations to the states that are known for them. */
  def pin(
      plan: LogicalPlan,
      state: HeadwaterFileIndex => Option[TableState],
      reader: HeadwaterFileIndex => SparkSession = _.session): LogicalPlan = plan.transformWithSubqueries {
    case LiveRelation(relation, files, index, format) =>
      state(index).map { known =>
        relation.copy(relation =
          files.copy(location = index.pinned(known, reader(index)), fileFormat = format.at(known))(files.sparkSession))
      }.getOrElse(relation)
  }

  private object LiveRelation {
    def unapply(plan: LogicalPlan): Option[(LogicalRelation, HadoopFsRelation, HeadwaterFileIndex, HeadwaterParquetFileFormat)] =
      plan match {
        case relation @ LogicalRelation(
              files @ HadoopFsRelation(index: HeadwaterFileIndex, _, _, _, format: HeadwaterParquetFileFormat, _),
              _,
              _,
              _,
              _)
            if index.live =>
          Some((relation, files, index, format))
        case _ => None
      }
  }

  private def ofThisQuery(): mutable.Map[String, TableState] = QueryPlanningTracker.get match {
    case Some(query) => states.computeIfAbsent(query, _ => mutable.HashMap.empty)
    case None => mutable.HashMap.empty
  }
}
