package org.apache.spark.sql.headwater

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.storage.StorageLevel

/**
 * Rows of a query, computed when they are first read and kept for one statement: however often they are read, they are the same. They are kept
 * as rows, not as Spark's cache keeps tables, by columns and compressed, which takes longer than they are kept for.
 */
final class KeptRows private (val relation: LogicalPlan, rows: RDD[InternalRow]) {
  def drop(): Unit = rows.unpersist(blocking = false)
}

object KeptRows {
  def apply(session: SparkSession, plan: LogicalPlan): KeptRows = {
    val classic = session.asInstanceOf[ClassicSession]
    val execution = Dataset.ofRows(classic, plan).queryExecution
    val rows = execution.toRdd.map(_.copy()).persist(StorageLevel.MEMORY_AND_DISK)
    val statistics = Some(execution.optimizedPlan.stats)
    val output = execution.analyzed.output
    new KeptRows(LogicalRDD(output, rows, UnknownPartitioning(0), Nil, isStreaming = false, None)(classic, statistics, None), rows)
  }
}
