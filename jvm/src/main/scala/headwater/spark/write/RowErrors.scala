package headwater.spark.write

import java.util.concurrent.ConcurrentHashMap

import headwater.spark.HeadwaterRowException
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow

final class RowErrors(rows: Iterator[InternalRow]) extends Iterator[InternalRow] {
  private var ahead: InternalRow = _
  private var ended = false

  /** Some iterators make a row when they are asked whether there is one, others when it is taken. */
  override def hasNext: Boolean = ahead != null || (!ended && {
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
  private val ofTasks = new ConcurrentHashMap[Long, HeadwaterRowException]()

  private def note(error: HeadwaterRowException): Unit = {
    val task = TaskContext.get()
    ofTasks.put(task.taskAttemptId(), error)
    task.addTaskCompletionListener[Unit]((_: TaskContext) => ofTasks.remove(task.taskAttemptId()))
  }

  /** What ended the rows of a task. */
  def find(task: TaskContext): Option[HeadwaterRowException] = Option(task).flatMap(t => Option(ofTasks.get(t.taskAttemptId())))
}
