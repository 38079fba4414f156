package org.apache.spark.sql.headwater.scan

import java.util.concurrent.{Callable, ExecutionException, Executors, ExecutorService, Future}

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile

/**
 * Opens a task's files, one after another, each while the rows of the file before it are used: to open a small file takes longer than to
 * read it. A thread of its own does that, so it also reads the first rows of a file.
 *
 * Each task has a copy of its own, as tasks are deserialized.
 */
class OpeningAhead(open: PartitionedFile => Iterator[InternalRow]) extends (PartitionedFile => Iterator[InternalRow]) with Serializable {
  @transient private var next: Iterator[Future[Iterator[InternalRow]]] = _
  @transient private var opening: Future[Iterator[InternalRow]] = _

  /** A task begins to read files; they are then asked for in this order. */
  def begin(files: IndexedSeq[PartitionedFile], task: TaskContext): Unit = {
    val thread = Executors.newSingleThreadExecutor((work: Runnable) => {
      val daemon = new Thread(work, s"opening files ahead for task ${task.taskAttemptId()}")
      daemon.setDaemon(true)
      daemon
    })
    task.addTaskCompletionListener[Unit](_ => thread.shutdownNow())
    next = files.iterator.map(file => submit(thread, file, task))
    opening = advance()
  }

  private def advance(): Future[Iterator[InternalRow]] = if (next.hasNext) next.next() else null

  private def submit(thread: ExecutorService, file: PartitionedFile, task: TaskContext): Future[Iterator[InternalRow]] =
    thread.submit(new Callable[Iterator[InternalRow]] {
      override def call(): Iterator[InternalRow] = {
        // A reader closes its file when the task of its thread ends.
        TaskContext.setTaskContext(task)
        val rows = open(file)
        rows.hasNext
        rows
      }
    })

  /** The next file is opened even if this one could not be: the task may be told to go on without it. */
  override def apply(file: PartitionedFile): Iterator[InternalRow] =
    try opening.get()
    catch { case e: ExecutionException => throw e.getCause }
    finally opening = advance()
}
