package org.apache.spark.sql.headwater

import java.util.Base64
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import headwater.spark.Json
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * What a rewrite's rows say beside their values: the positions of the rows they replace, by file number, the source rows that found a
 * match, and how many rows each action had. One a task, merged on the driver from the tasks that succeeded.
 */
final class TrackedRows extends Serializable {
  private val files = mutable.HashMap.empty[Int, PositionSet]
  /** Numbers of the source rows that found a match. */
  val source = new PositionSet
  private val actions = mutable.HashMap.empty[Int, Long]
  private var repeated = 0L

  def file(number: Int, position: Long): Unit =
    if (!files.getOrElseUpdate(number, new PositionSet).add(position)) repeated += 1

  def sourceRow(id: Long): Unit = source.add(id)

  def action(number: Int): Unit = actions.update(number, actions.getOrElse(number, 0L) + 1)

  def merge(other: TrackedRows): Unit = {
    other.files.foreach { case (number, positions) => repeated += files.getOrElseUpdate(number, new PositionSet).addAll(positions) }
    source.addAll(other.source)
    other.actions.foreach { case (number, count) => actions.update(number, actions.getOrElse(number, 0L) + count) }
    repeated += other.repeated
  }

  /** `positions` by file number and `source`, both as base64, `actions` by number, `repeated` (positions seen more than once). */
  def describe: Map[String, Any] = Map(
    "positions" -> files.map { case (number, positions) => number.toString -> text(positions) }.toMap,
    "source" -> text(source),
    "actions" -> actions.map { case (number, count) => number.toString -> count }.toMap,
    "repeated" -> repeated)

  private def text(positions: PositionSet): String = Base64.getEncoder.encodeToString(positions.serialize)
}

object TrackedRows {
  private val ofTasks = new ConcurrentHashMap[Long, TrackedRows]()

  /** Those of the running task; forgotten when the task ends. */
  def ofTask(): TrackedRows = {
    val task = TaskContext.get()
    ofTasks.computeIfAbsent(task.taskAttemptId(), id => {
      task.addTaskCompletionListener[Unit]((_: TaskContext) => ofTasks.remove(id))
      new TrackedRows
    })
  }

  def find(task: TaskContext): Option[TrackedRows] = Option(task).flatMap(t => Option(ofTasks.get(t.taskAttemptId())))

  def merged(parts: Iterable[TrackedRows]): TrackedRows = {
    val all = new TrackedRows
    parts.foreach(all.merge)
    all
  }
}

/**
 * Notes what the last columns of each row say ([[TrackRowsExec.Columns]]) and passes on, without them, the rows that are to be written. It
 * stands right below the writer, in the writer's own tasks, so that what a failed task noted is lost with it.
 */
case class TrackRowsExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output.dropRight(TrackRowsExec.Columns)
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = Nil

  override protected def doExecute(): RDD[InternalRow] = {
    val (kept, all) = (output, child.output)
    child.execute().mapPartitionsInternal { rows =>
      val noted = TrackedRows.ofTask()
      val project = UnsafeProjection.create(kept, all)
      val first = kept.size
      rows.filter(TrackRowsExec.note(_, first, noted)).map(project)
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
}

object TrackRowsExec {
  /**
   * So many columns are the last ones of a tracked query, in this order: the file's number (int) and the row's position in it (bigint), both null where no row
   * is replaced; the action's number (int), null where the row is not to be counted; whether the row is written (boolean); the number of
   * the source row that found a match (bigint), or null.
   */
  val Columns = 5

  private def note(row: InternalRow, first: Int, noted: TrackedRows): Boolean = {
    if (!row.isNullAt(first)) noted.file(row.getInt(first), row.getLong(first + 1))
    if (!row.isNullAt(first + 2)) noted.action(row.getInt(first + 2))
    if (!row.isNullAt(first + 4)) noted.sourceRow(row.getLong(first + 4))
    !row.isNullAt(first + 3) && row.getBoolean(first + 3)
  }

  /** Runs a tracked query whose rows are not written anywhere. */
  def run(plan: SparkPlan): TrackedRows = TrackedRows.merged(
    TrackRowsExec(plan).execute().mapPartitions { rows =>
      while (rows.hasNext) rows.next()
      TrackedRows.find(TaskContext.get()).iterator
    }.collect())
}
