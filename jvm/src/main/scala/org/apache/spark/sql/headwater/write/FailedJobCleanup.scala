package org.apache.spark.sql.headwater.write

import java.util.UUID
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, TimeoutException, TimeUnit}

import scala.concurrent.{Await, Future}
import scala.concurrent.duration.Duration
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{Pool, Schedulable, TaskSetManager}
import org.apache.spark.sql.headwater.bridge.JobProperties

/**
 * Removes the files of a failed write job once its tasks have ended. Spark reports a cancelled job at once, while its tasks still run and
 * may open more files. The statement only waits a moment for them; a statement that needs the directory clean waits for the rest
 * ([[settled]]).
 */
object FailedJobCleanup {
  private val StatementWaitsMilliseconds = 800L
  private val NextWaitsMilliseconds = 30000L
  private val JobEndsMilliseconds = 2000L
  private val PauseMilliseconds = 10L
  /** How long to wait for a task that ignores its interrupt, in nanoseconds; VACUUM removes what it writes after that. */
  private val Patience = TimeUnit.MINUTES.toNanos(10)
  private val Job = "spark.headwater.job"

  /** The cleanups that run, by the directory that the job writes to. */
  private val cleaning = new ConcurrentHashMap[String, Set[CompletableFuture[Unit]]]()

  /**
   * Runs a job that writes to a directory; if it fails, `clean` removes its files: it is asked for in the statement's thread, as it takes
   * a copy of the session's configuration, which costs too much for every job. The job gets a function that cancels it after a moment: if
   * it is about to end anyway, Spark then logs no cancelled job.
   */
  def await[T](context: SparkContext, place: String, clean: => () => Unit)(job: (() => Unit) => T): T = {
    val id = UUID.randomUUID().toString
    val tag = s"headwater-$id"
    JobProperties.within(context, Map(Job -> id)) {
      context.addJobTag(tag)
      try job(() => cancelSoon(context, tag))
      catch {
        case e: Throwable =>
          if (!context.isStopped) {
            // An interrupt ends the thread's wait, not the job.
            val cancelled = context.cancelJobsWithTagWithFuture(tag, "the statement has ended")
            waitFor(Seq(begin(context, id, place, cancelled, clean)), StatementWaitsMilliseconds)
          }
          throw e
      } finally context.removeJobTag(tag)
    }
  }

  private def cancelSoon(context: SparkContext, tag: String): Unit = {
    val work: Runnable = () => {
      Thread.sleep(JobEndsMilliseconds)
      if (!context.isStopped) context.cancelJobsWithTag(tag, "a row breaks a rule of the table")
    }
    val thread = new Thread(null, work, "headwater-cancel-soon", 0, false)
    thread.setDaemon(true)
    thread.start()
  }

  /** Waits for the cleanups of a directory. Returns whether there were any. */
  def settled(place: String): Boolean = Option(cleaning.get(place)).exists { running =>
    waitFor(running.toSeq, NextWaitsMilliseconds)
    true
  }

  private def begin(context: SparkContext, id: String, place: String, cancelled: Future[_], clean: () => Unit): CompletableFuture[Unit] = {
    val done = new CompletableFuture[Unit]()
    cleaning.merge(place, Set(done), _ ++ _)
    val work: Runnable = () =>
      try {
        Await.ready(cancelled, Duration(Patience, TimeUnit.NANOSECONDS))
        whileRunning(context, id)
        if (!context.isStopped) clean()
      } catch { case NonFatal(_) => }
      finally {
        cleaning.computeIfPresent(place, (_, running) => Some(running - done).filter(_.nonEmpty).orNull)
        done.complete(())
      }
    val thread = new Thread(null, work, "headwater-ended-tasks", 0, false)
    thread.setDaemon(true)
    thread.start()
    done
  }

  /** An interrupt does not end this wait: it has ended the statement already, or will. */
  private def waitFor(cleaned: Seq[CompletableFuture[Unit]], milliseconds: Long): Unit = {
    val until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds)
    var interrupted = false
    cleaned.foreach { one =>
      while (!one.isDone && System.nanoTime() < until)
        try one.get(until - System.nanoTime(), TimeUnit.NANOSECONDS)
        catch { case _: InterruptedException => interrupted = true; case _: TimeoutException => }
    }
    if (interrupted) Thread.currentThread().interrupt()
  }

  private def whileRunning(context: SparkContext, id: String): Unit = {
    val until = System.nanoTime() + Patience
    while (!context.isStopped && running(context.taskScheduler.rootPool, id) && System.nanoTime() < until) Thread.sleep(PauseMilliseconds)
  }

  private def running(schedulable: Schedulable, id: String): Boolean = schedulable match {
    case pool: Pool => pool.schedulableQueue.asScala.exists(running(_, id))
    case tasks: TaskSetManager => tasks.runningTasks > 0 && Option(tasks.taskSet.properties).exists(_.getProperty(Job) == id)
    case _ => false
  }
}
