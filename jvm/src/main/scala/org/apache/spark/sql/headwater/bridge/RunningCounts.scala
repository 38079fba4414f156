package org.apache.spark.sql.headwater.bridge

import scala.collection.concurrent.TrieMap

import org.apache.spark.scheduler.{SparkListener, SparkListenerExecutorMetricsUpdate, SparkListenerStageCompleted, SparkListenerTaskEnd}
import org.apache.spark.util.AccumulatorContext

/**
 * What running tasks have counted, as of their executor's last heartbeat.
 *
 * Spark's store has that by the names of the counters, but for executors that run in the driver: their counters are sent without names.
 */
private[bridge] final class RunningCounts extends SparkListener {

  /** By the task: its stage, and its counts by the counters' names. */
  private val tasks = TrieMap.empty[Long, (Int, Map[String, Long])]

  override def onExecutorMetricsUpdate(update: SparkListenerExecutorMetricsUpdate): Unit =
    update.accumUpdates.foreach { case (task, stage, _, counters) =>
      val counts = for {
        counter <- counters if counter.name.isEmpty
        name <- AccumulatorContext.get(counter.id).flatMap(_.name)
        count <- counter.update.collect { case count: Long => count }
      } yield name -> count
      tasks.put(task, (stage, counts.toMap))
    }

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = tasks.remove(end.taskInfo.taskId)

  /** A heartbeat may arrive after the end of a task that it counts. */
  override def onStageCompleted(end: SparkListenerStageCompleted): Unit =
    tasks.filterInPlace((_, counted) => counted._1 != end.stageInfo.stageId)

  /** The sums of the tasks of these stages, by the counters' names. */
  def of(stages: Set[Int]): Map[String, Long] =
    tasks.values.filter(task => stages(task._1)).flatMap(_._2).groupMapReduce(_._1)(_._2)(_ + _).withDefaultValue(0L)
}
