package org.apache.spark.sql.headwater.write

import java.util.UUID
import java.util.concurrent.ConcurrentLinkedQueue

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import headwater.spark.HeadwaterRowException
import headwater.spark.bridge.Json
import headwater.spark.bridge.messages.WrittenFile
import headwater.spark.write.{ChangeData, ClosedFiles, FooterStatistics, RewriteTracking, RowErrors}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.{JobContext, TaskAttemptContext}
import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.executor.CommitDeniedException
import org.apache.spark.internal.io.{FileCommitProtocol, FileNameSpec}
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils

/**
 * Writes files under their final names, which are never used again. So committing a task renames nothing; it returns to the driver what the
 * task wrote. A failed task deletes its files if it still can; otherwise nothing refers to them.
 *
 * @param leaves the column paths, as in the files, whose statistics are read from each footer
 * @param changeColumn in a job with change data, the first partition column, which says whether a row is change data
 */
class HeadwaterCommitProtocol(path: String, leaves: Seq[Seq[String]], changeColumn: Option[String]) extends FileCommitProtocol
    with Serializable {
  /** Part of the names of all files of this job, and of no other file. */
  private val job = UUID.randomUUID().getMostSignificantBits

  @transient private var written: mutable.ArrayBuffer[OpenedFile] = _
  @transient private var committed: Seq[DescribedFile] = Nil
  @transient private var mergedTracking: RewriteTracking = _
  @transient private val committedFiles = new ConcurrentLinkedQueue[DescribedFile]()

  /** The files of the tasks that succeeded. */
  def files: Seq[DescribedFile] = committed

  /** The tracking of the tasks that succeeded, for a tracked query. */
  def tracked: RewriteTracking = mergedTracking

  override def setupJob(job: JobContext): Unit = {}

  override def setupTask(task: TaskAttemptContext): Unit = {
    written = mutable.ArrayBuffer.empty
    // Spark's writer does not abort a task that is cancelled while it opens its first file.
    Option(TaskContext.get()).foreach(_.addTaskFailureListener((_: TaskContext, _: Throwable) => abortTask(task)))
  }

  override def newTaskTempFile(task: TaskAttemptContext, dir: Option[String], ext: String): String =
    newTaskTempFile(task, dir, FileNameSpec("", ext))

  override def newTaskTempFile(task: TaskAttemptContext, dir: Option[String], spec: FileNameSpec): String = {
    val unique = new UUID(job, UUID.randomUUID().getLeastSignificantBits)
    val name = f"part-${task.getTaskAttemptID.getTaskID.getId}%05d-$unique${spec.suffix}"
    val (folder, below, prefix) = folderOf(dir)
    val relative = (folder.toSeq ++ below :+ (prefix + name)).mkString("/")
    val file = new Path(path, relative)
    written += OpenedFile(file.toString, relative, below.map(partitionOf).getOrElse(Nil))
    file.toString
  }

  /** Change data goes to a folder of its own; `changeColumn` is no partition column of the table. */
  private def folderOf(dir: Option[String]): (Option[String], Option[String], String) = dir match {
    case Some(directory) if changeColumn.isDefined =>
      val (first, rest) = directory.span(_ != '/')
      val prefix = first.drop(first.lastIndexOf('=') + 1) match {
        case "true" => ChangeData.FilePrefix
        case ChangeData.Staged => ChangeData.StagedPrefix
        case _ => ""
      }
      (Option.when(prefix.nonEmpty)(ChangeData.Folder), Option.when(rest.nonEmpty)(rest.tail), prefix)
    case other => (None, other, "")
  }

  private def partitionOf(dir: String): Seq[(String, Option[String])] = dir.split('/').toSeq.map { part =>
    val equals = part.indexOf('=')
    val (name, value) = (part.take(equals), part.drop(equals + 1))
    val text = Option.when(value != ExternalCatalogUtils.DEFAULT_PARTITION_NAME)(ExternalCatalogUtils.unescapePathName(value))
    ExternalCatalogUtils.unescapePathName(name) -> text
  }

  override def newTaskTempFileAbsPath(task: TaskAttemptContext, dir: String, ext: String): String =
    throw new UnsupportedOperationException("a Delta table has no partition locations of its own")

  override def commitTask(task: TaskAttemptContext): TaskCommitMessage = {
    requireOnly(TaskContext.get())
    val error = RowErrors.find(TaskContext.get())
    if (error.isDefined) {
      abortTask(task)
      return new TaskCommitMessage(TaskOutput(Nil, None, error))
    }
    val described = written.toSeq.flatMap { file =>
      val at = new Path(file.path)
      val fs = at.getFileSystem(task.getConfiguration)
      val status = fs.getFileStatus(at)
      val footer = ClosedFiles.take(file.path).getOrElse(FooterStatistics.read(status, task.getConfiguration, leaves))
      if (footer.rows == 0) { fs.delete(at, false); None }
      else Some(DescribedFile(
        file.relative,
        Json.write(WrittenFile(
          file.relative,
          status.getLen,
          status.getModificationTime,
          file.partition.toMap,
          footer.rows,
          footer.columns))))
    }
    new TaskCommitMessage(TaskOutput(described, RewriteTracking.find(TaskContext.get()), None))
  }

  /** Only one attempt at a task may commit, whether others are speculative or belong to a retried stage; those delete their files. */
  private def requireOnly(task: TaskContext): Unit =
    if (!SparkEnv.get.outputCommitCoordinator.canCommit(
        task.stageId(),
        task.stageAttemptNumber(),
        task.partitionId(),
        task.attemptNumber()))
      throw new CommitDeniedException(
        "another attempt at this task writes its rows",
        task.stageId(),
        task.partitionId(),
        task.attemptNumber())

  override def abortTask(task: TaskAttemptContext): Unit =
    if (written != null) written.foreach { file =>
      ClosedFiles.take(file.path)
      val at = new Path(file.path)
      try at.getFileSystem(task.getConfiguration).delete(at, false)
      catch { case _: java.io.IOException => }
    }

  override def commitJob(job: JobContext, tasks: Seq[TaskCommitMessage]): Unit = {
    val outputs = tasks.map(_.obj.asInstanceOf[TaskOutput])
    if (rowError.isDefined) abortJob(job)
    committed = outputs.flatMap(_.files)
    mergedTracking = RewriteTracking.merged(outputs.flatMap(_.tracked))
  }

  override def onTaskCommit(task: TaskCommitMessage): Unit = {
    val output = task.obj.asInstanceOf[TaskOutput]
    output.files.foreach(committedFiles.add)
    if (output.error.isDefined && rowError.isEmpty) {
      rowError = output.error
      onRowError()
    }
  }

  /** The error of the first row that broke a rule of the table. It ended its task, and no file of the job may be used. */
  @transient @volatile var rowError: Option[HeadwaterRowException] = None

  /** Called at the first such row. */
  @transient var onRowError: () => Unit = () => ()

  override def abortJob(job: JobContext): Unit =
    HeadwaterCommitProtocol.discard(path, committedFiles.asScala.map(_.path), job.getConfiguration)

  /**
   * Deletes all files of a failed job by their names: Spark drops the commit message of a task that succeeds while the job is cancelled. In
   * a directory of very many files, this is left to VACUUM.
   */
  def removeAll(conf: Configuration): Unit = {
    val mark = "-" + new UUID(job, 0L).toString.take(HeadwaterCommitProtocol.MarkLength)
    val top = new Path(path)
    val fs = top.getFileSystem(conf)
    var left = HeadwaterCommitProtocol.MostListed
    def remove(directory: Path): Unit = {
      val listed = fs.listStatusIterator(directory)
      while (listed.hasNext && left > 0) {
        left -= 1
        val found = listed.next()
        val name = found.getPath.getName
        if (found.isDirectory) { if (name != "_delta_log") remove(found.getPath) }
        else if (name.contains(mark)) fs.delete(found.getPath, false)
      }
    }
    try remove(top)
    catch { case _: java.io.IOException => }
  }
}

object HeadwaterCommitProtocol {
  /** The job's part of a UUID's text: the first 64 bits, as 16 digits and 2 dashes. */
  private val MarkLength = 18
  private val MostListed = 10000

  /** Deletes files of a table's directory, given by their paths below it. Files that cannot be deleted stay. */
  def discard(table: String, files: Iterable[String], conf: Configuration): Unit = files.foreach { file =>
    val at = new Path(table, file)
    try at.getFileSystem(conf).delete(at, false)
    catch { case _: java.io.IOException => }
  }
}

/** A file that a task finished: its path below the table, and the `WrittenFile` as JSON, which reaches the handler as it is. */
final case class DescribedFile(path: String, json: String)

/** A task's result: its files and its tracking, or the error of one of its rows. */
final case class TaskOutput(files: Seq[DescribedFile], tracked: Option[RewriteTracking], error: Option[HeadwaterRowException])

/** A file that a task writes: its full path, its path below the table with escaped directory names, its partition values by column. */
final case class OpenedFile(path: String, relative: String, partition: Seq[(String, Option[String])])
