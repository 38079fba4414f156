package headwater.spark.write

import java.util.concurrent.ConcurrentHashMap

import headwater.spark.HeadwaterRowException
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow

/**
 * A task's rows up to the first one that breaks a rule of the table; the row's error waits for the task's commit to return it
 * ([[RowErrors.find]]).
 */
final class RowErrors(rows: Iterator[InternalRow]) extends Iterator[InternalRow] {
  private var ahead: InternalRow = _
  private var ended = false

  /** Some iterators compute a row in `hasNext`, others in `next`. */
  override def hasNext: Boolean = ahead != null ||
    (!ended && {
      try { if (rows.hasNext) ahead = rows.next() else ended = true }
      catch { case e: HeadwaterRowException => RowErrors.note(e); ended = true }
      !ended
    })

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("no more rows")
    val row = ahead
    ahead = null
    row
  }
}

object RowErrors {
  private val byTask = new ConcurrentHashMap[Long, HeadwaterRowException]()

  private def note(error: HeadwaterRowException): Unit = {
    val task = TaskContext.get()
    byTask.put(task.taskAttemptId(), error)
    task.addTaskCompletionListener[Unit]((_: TaskContext) => byTask.remove(task.taskAttemptId()))
  }

  /** The error that ended a task's rows. */
  def find(task: TaskContext): Option[HeadwaterRowException] = Option(task).flatMap(t => Option(byTask.get(t.taskAttemptId())))
}
