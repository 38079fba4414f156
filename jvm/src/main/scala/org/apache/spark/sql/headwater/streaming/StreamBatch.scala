package org.apache.spark.sql.headwater.streaming

import headwater.spark.shims.LogicalRddShim
import org.apache.spark.sql.{classic, DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.streaming.runtime.{ResolveWriteToStream, StreamExecution}

/** Small wrappers around what Spark's streaming keeps to itself. */
object StreamBatch {
  /** The query's id, which its checkpoint keeps over restarts. */
  def queryId(session: SparkSession): String = session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY)

  /**
   * A plan that reads a micro-batch's rows. They are consumed through the batch's own execution: a plan over the batch's logical plan would be
   * planned without its state stores and watermarks, and its rows would not count as the query's.
   */
  def rows(data: DataFrame): LogicalPlan = {
    val execution = data.asInstanceOf[classic.Dataset[_]].queryExecution
    LogicalRddShim(execution.analyzed.output, execution.toRdd, execution.sparkSession, execution.optimizedPlan.stats)
  }

  /** The sink of a query that is about to be checked, and the name that the user gave the query. */
  object Starting {
    def unapply(plan: LogicalPlan): Option[(Table, Option[String])] = plan match {
      case statement: WriteToStreamStatement => Some((statement.sink, statement.userSpecifiedName))
      case _ => None
    }
  }

  /** Spark's own check of a streaming query and of its checkpoint location. Throws what it refuses. */
  def checked(starting: LogicalPlan): LogicalPlan = {
    val checked = ResolveWriteToStream(starting)
    // Spark refreshes the sink's table after each batch, which fails for one that is only a path. The sink does what that is for.
    val arguments = checked.productIterator.map {
      case Some(table: CatalogTable) if table.identifier.table.contains("/") => None
      case other => other.asInstanceOf[AnyRef]
    }.toArray[AnyRef]
    checked.makeCopy(arguments)
  }

  def isActive(session: SparkSession, queryName: String): Boolean = session.streams.active.exists(_.name == queryName)
}
