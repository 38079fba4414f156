package org.apache.spark.sql.headwater

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.storage.StorageLevel

/**
 * Rows of a query, computed when they are first read and kept for one statement, beside Spark's cache of tables and unknown to it: however
 * often they are read, they are the same.
 */
final class KeptRows private (val relation: InMemoryRelation) {
  def drop(): Unit = relation.cacheBuilder.clearCache(false)
}

object KeptRows {
  def apply(session: SparkSession, plan: LogicalPlan): KeptRows = {
    val execution = Dataset.ofRows(session.asInstanceOf[ClassicSession], plan).queryExecution
    new KeptRows(InMemoryRelation(StorageLevel.MEMORY_AND_DISK, execution, None))
  }
}
