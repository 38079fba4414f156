package headwater.spark.scan.tables

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.TableLocation
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.SparkInternals

/**
 * Keeps what Spark caches apart from transactions over several statements. Spark compares the normalized plans of queries with those of
 * its caches, which all sessions share. And it computes a cached query again in whatever session has changed a table of it, with the plan
 * from before. So a plan that was resolved before BEGIN gets the transaction that it is read in now: no other session finds such a cache,
 * nor does a later statement of this one. Before the transaction ends, Spark computes it once more, and it gets its old key.
 */
case class KeyByTransaction(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    // Two relations of one query that are the same stay so. The versions of tables are not negative.
    lazy val number = KeyByTransaction.lastNumber.decrementAndGet()
    plan.transformWithSubqueries {
      case relation @ LogicalRelation(files @ HadoopFsRelation(index: HeadwaterFileIndex, _, _, _, _, _), _, _, _, _) if index.live =>
        val transaction = PinSnapshots.transaction(session, index)
        val isKeyed = index.readsIn(transaction)
        transaction.foreach(KeyByTransaction.note(_, relation, index, isWithin = isKeyed))
        if (isKeyed) relation
        else relation.copy(relation = files.copy(location = index.readIn(transaction.map((_, number))))(files.sparkSession))
    }
  }
}

object KeyByTransaction {
  private val lastNumber = new AtomicLong
  private val read = new ConcurrentHashMap[String, Reads]

  /** What the queries of a transaction read that may be cached: relations that were resolved in it, and tables of those from before. */
  private class Reads {
    val within = ConcurrentHashMap.newKeySet[LogicalPlan]
    val before = ConcurrentHashMap.newKeySet[TableLocation]
  }

  private def note(transaction: String, relation: LogicalRelation, index: HeadwaterFileIndex, isWithin: Boolean): Unit = {
    val reads = read.computeIfAbsent(transaction, _ => new Reads)
    if (isWithin) reads.within.add(relation.canonicalized) else reads.before.add(index.tableLocation)
  }

  /** Drops what was cached of the DataFrames that the session's transaction has defined, and has others computed again without it. */
  def end(session: SparkSession): Unit =
    for (transaction <- SparkInternals.transaction(session); reads <- Option(read.get(transaction))) {
      // Spark normalizes what it is to drop, which is one more query that reads in the transaction.
      try reads.within.asScala.toList.foreach(SparkInternals.dropCaches(session, _))
      finally read.remove(transaction)
      val outside = SparkInternals.outsideTransaction(session)
      reads.before.asScala.foreach(SparkInternals.refreshCaches(outside, _))
    }
}
