package org.apache.spark.sql.headwater

import java.util.UUID
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{Pool, Schedulable, TaskSetManager}

/**
 * Holds a job that fails until its tasks have ended. Spark tells of a cancelled job at once, while its tasks still run, and may yet open a
 * file: whoever writes to the same place next would find it.
 */
object EndedTasks {
  /** A task that heeds no interruption is not waited for any longer. */
  private val Patience = TimeUnit.SECONDS.toNanos(10)
  private val Job = "spark.headwater.job"

  def await[T](context: SparkContext)(job: => T): T = {
    val id = UUID.randomUUID().toString
    LocalProperties.within(context, Map(Job -> id)) {
      try job catch { case e: Throwable => whileRunning(context, id); throw e }
    }
  }

  private def whileRunning(context: SparkContext, id: String): Unit = {
    val until = System.nanoTime() + Patience
    var interrupted = false
    while (!context.isStopped && running(context.taskScheduler.rootPool, id) && System.nanoTime() < until)
      try Thread.sleep(5) catch { case _: InterruptedException => interrupted = true }
    if (interrupted) Thread.currentThread().interrupt()
  }

  private def running(schedulable: Schedulable, id: String): Boolean = schedulable match {
    case pool: Pool => pool.schedulableQueue.asScala.exists(running(_, id))
    case tasks: TaskSetManager => tasks.runningTasks > 0 && Option(tasks.taskSet.properties).exists(_.getProperty(Job) == id)
    case _ => false
  }
}
