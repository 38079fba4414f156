package org.apache.spark.sql.headwater.bridge

import java.nio.charset.Charset
import java.util.concurrent.TimeUnit

import scala.util.control.NonFatal

import headwater.spark.bridge.messages.{RunningJob, ShowJobsRequest}
import org.apache.spark.InternalAccumulator.{input, output}
import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.ui.ConsoleProgressBar
import org.apache.spark.util.ThreadUtils

/**
 * A line on standard error that says what runs, in the place of Spark's bar. `ask` answers the line.
 *
 * It is a bar of Spark's because Spark takes its bar away at the end of each job, before a shell prints rows and its prompt.
 */
final class ProgressLine private (context: SparkContext, ask: ShowJobsRequest => Option[String]) extends ConsoleProgressBar(context) {
  import ProgressLine._

  super.stop() // Spark's own bar, which has begun to look for stages

  private val counts = new RunningCounts
  context.addSparkListener(counts)

  private var shown = ""
  private var lastEnd = System.nanoTime()

  private val timer = ThreadUtils.newDaemonSingleThreadScheduledExecutor("headwater-progress")
  timer.scheduleWithFixedDelay(() => look(), PeriodMilliseconds, PeriodMilliseconds, TimeUnit.MILLISECONDS)

  private def look(): Unit = {
    val before = synchronized(lastEnd)
    // Spark's store learns of the end of a job a moment after the shell.
    if (System.nanoTime() - before > TimeUnit.MILLISECONDS.toNanos(PauseMilliseconds)) {
      val line = try {
        val jobs = running
        if (jobs.isEmpty) Some("") else ask(ShowJobsRequest(jobs, streams))
      } catch { case NonFatal(_) => Some("") } // Spark or the handler ends: a display fails no statement
      line.foreach(text => synchronized(if (lastEnd == before) show(text)))
    }
  }

  override def finishAll(): Unit = synchronized {
    lastEnd = System.nanoTime()
    show("")
  }

  override def stop(): Unit = {
    timer.shutdownNow()
    finishAll()
  }

  private def show(text: String): Unit = if (text.nonEmpty || shown.nonEmpty) {
    val line = if (drawsBlocks) text else text.replace('█', '#').replace('░', '.').replace('…', '~')
    System.err.print("\r" + line.padTo(shown.length, ' ') + (if (line.isEmpty) "\r" else ""))
    System.err.flush()
    shown = line
  }

  private def running: Seq[RunningJob] = context.statusTracker.getActiveJobIds().toSeq.flatMap { id =>
    known(context.statusStore.job(id)).map { job =>
      val stages = job.stageIds.flatMap(stage => known(context.statusStore.lastStageAttempt(stage)))
      val more = counts.of(job.stageIds.toSet)
      RunningJob(
        description = job.description,
        group = job.jobGroup,
        done = job.numCompletedTasks.toLong + job.numSkippedTasks,
        tasks = job.numTasks,
        rowsRead = stages.map(_.inputRecords).sum + more(input.RECORDS_READ),
        bytesRead = stages.map(_.inputBytes).sum + more(input.BYTES_READ),
        rowsWritten = stages.map(_.outputRecords).sum + more(output.RECORDS_WRITTEN))
    }
  }

  private def streams: Seq[String] = SparkSession.getDefaultSession.toSeq.flatMap(_.streams.active.map(_.runId.toString))
}

object ProgressLine {
  private val Setting = "spark.headwater.progress"
  private val PeriodMilliseconds = 500L
  private val PauseMilliseconds = 500L
  private lazy val drawsBlocks = Charset.defaultCharset.newEncoder.canEncode("█░…")

  /** Gives this Spark the line, once, if it was started with the setting. */
  def install(ask: ShowJobsRequest => Option[String]): Unit =
    SparkContext.getActive.filter(_.getConf.getBoolean(Setting, defaultValue = false)).foreach { context =>
      if (!context.progressBar.exists(_.isInstanceOf[ProgressLine])) {
        try {
          val bar = classOf[SparkContext].getDeclaredField("_progressBar")
          bar.setAccessible(true)
          context.progressBar.foreach(_.stop())
          bar.set(context, Some(new ProgressLine(context, ask)))
        } catch { case _: ReflectiveOperationException => } // a Spark without this field keeps its own bar
      }
    }

  /** What Spark's store has; none if it has forgotten it, or does not know it yet. */
  private def known[A](ask: => A): Option[A] =
    try Some(ask)
    catch { case _: NoSuchElementException => None }
}
