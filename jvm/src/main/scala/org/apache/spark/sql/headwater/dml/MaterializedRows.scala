package org.apache.spark.sql.headwater.dml

import headwater.spark.dml.LostBlockException
import headwater.spark.shims.LogicalRddShim
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.headwater.ProducedRows
import org.apache.spark.storage.StorageLevel

/**
 * The rows of a query, cached for one statement: every read sees the same rows in the same order. They are stored as rows; Spark's table
 * cache would store compressed columns, which takes longer than the rows are needed.
 *
 * In local mode they are computed when they are first read. With executors in other processes, a job computes them at once
 * ([[MaterializedBlockRDD]]).
 */
final class MaterializedRows private (val relation: LogicalPlan, remove: () => Unit) {
  def drop(): Unit = remove()
}

object MaterializedRows {
  def apply(session: SparkSession, plan: LogicalPlan): MaterializedRows = {
    val classic = session.asInstanceOf[ClassicSession]
    val execution = Dataset.ofRows(classic, plan).queryExecution
    val computed = execution.toRdd.map(_.copy())
    val (rows, remove) =
      if (classic.sparkContext.isLocal) {
        val rows = computed.persist(StorageLevel.MEMORY_AND_DISK)
        (rows, () => { rows.unpersist(blocking = false); () })
      } else {
        val rows = MaterializedBlockRDD.store(computed)
        (rows, () => rows.drop())
      }
    new MaterializedRows(LogicalRddShim(execution.analyzed.output, rows, classic, ProducedRows.statistics(execution.optimizedPlan)), remove)
  }

  /** Whether a job failed because materialized rows were lost with their executor. */
  def lost(error: Throwable): Boolean =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).exists(_.isInstanceOf[LostBlockException])
}
