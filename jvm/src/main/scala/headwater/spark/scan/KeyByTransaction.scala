package headwater.spark.scan

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}

/**
 * Keeps what Spark caches apart from transactions over several statements. Spark compares the normalized plans of queries with those of
 * its caches, which all sessions share. And it computes a cached query again in whatever session has changed a table of it, with the plan
 * from before. So a plan that was resolved before BEGIN gets the transaction that it is read in now: no other session finds such a cache,
 * nor does a later statement of this one. When the transaction ends, Spark computes it once more, and it gets its old key.
 */
case class KeyByTransaction(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    // Two relations of one query that are the same stay so. The versions of tables are not negative.
    lazy val number = KeyByTransaction.lastNumber.decrementAndGet()
    plan.transformWithSubqueries {
      case relation @ LogicalRelation(files @ HadoopFsRelation(index: HeadwaterFileIndex, _, _, _, _, _), _, _, _, _)
          if index.live && !index.readsIn(PinSnapshots.transaction(session, index)) =>
        val read = index.readIn(PinSnapshots.transaction(session, index).map((_, number)))
        relation.copy(relation = files.copy(location = read)(files.sparkSession))
    }
  }
}

object KeyByTransaction {
  private val lastNumber = new AtomicLong
}
