package headwater.spark.write

import java.util.Base64
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import headwater.spark.bridge.messages.TrackedRows
import org.apache.spark.TaskContext

/**
 * What a rewrite's rows say beside their values: the positions of the rows they replace, by file number; the source rows that found a
 * match; how many rows each action had. Each task has one; the driver merges those of the tasks that succeeded.
 */
final class RewriteTracking extends Serializable {
  private val files = mutable.HashMap.empty[Int, PositionSet]
  /** The numbers of the source rows that found a match. */
  val source = new PositionSet
  private val actions = mutable.HashMap.empty[Int, Long]
  private var repeated = 0L

  def file(number: Int, position: Long): Unit =
    if (!files.getOrElseUpdate(number, new PositionSet).add(position)) repeated += 1

  def sourceRow(id: Long): Unit = source.add(id)

  def action(number: Int): Unit = actions.update(number, actions.getOrElse(number, 0L) + 1)

  def merge(other: RewriteTracking): Unit = {
    other.files.foreach { case (number, positions) => repeated += files.getOrElseUpdate(number, new PositionSet).addAll(positions) }
    source.addAll(other.source)
    other.actions.foreach { case (number, count) => actions.update(number, actions.getOrElse(number, 0L) + count) }
    repeated += other.repeated
  }

  /** The same as a message: sets of positions in base64. */
  def describe: TrackedRows =
    TrackedRows(files.map { case (number, positions) => number -> text(positions) }.toMap, text(source), actions.toMap, repeated)

  private def text(positions: PositionSet): String = Base64.getEncoder.encodeToString(positions.serialize)
}

object RewriteTracking {
  private val byTask = new ConcurrentHashMap[Long, RewriteTracking]()

  /** That of the running task, until the task ends. */
  def ofTask(): RewriteTracking = {
    val task = TaskContext.get()
    byTask.computeIfAbsent(
      task.taskAttemptId(),
      id => {
        task.addTaskCompletionListener[Unit]((_: TaskContext) => byTask.remove(id))
        new RewriteTracking
      })
  }

  def find(task: TaskContext): Option[RewriteTracking] = Option(task).flatMap(t => Option(byTask.get(t.taskAttemptId())))

  def merged(parts: Iterable[RewriteTracking]): RewriteTracking = {
    val all = new RewriteTracking
    parts.foreach(all.merge)
    all
  }
}
