package org.apache.spark.sql.headwater.dml

import headwater.spark.dml.LostBlockException
import headwater.spark.shims.LogicalRddShim
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.storage.StorageLevel

/**
 * Rows of a query, kept for one statement: however often they are read, they are the same, and come in the same order. They are kept as rows,
 * not as Spark's cache keeps tables, by columns and compressed, which takes longer than they are kept for.
 *
 * Within one process they are computed when they are first read. With executors in other processes they are computed before, once: see
 * [[MaterializedBlockRDD]].
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
    new MaterializedRows(LogicalRddShim(execution.analyzed.output, rows, classic, execution.optimizedPlan.stats), remove)
  }

  /** Whether a job failed as kept rows were lost with their executor. */
  def lost(error: Throwable): Boolean =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).exists(_.isInstanceOf[LostBlockException])
}
