package headwater.spark.bridge

import scala.util.control.NonFatal

import headwater.spark.bridge.messages.MadeCommit
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.SQLExecution

/** What a statement has committed to a table at a location, as those see it that watch Spark. */
final case class NotedCommit(session: SparkSession, location: TableLocation, commit: MadeCommit)

/** Notes at the plan of the running execution what it has committed: listeners get that very plan when the execution ends. */
object NotedCommit extends Logging {
  private val Tag = TreeNodeTag[Seq[NotedCommit]]("headwater.commits")

  /** Notes commits of a call. A failure here must not fail the statement, which has committed. */
  private[bridge] def note(context: StatementContext, made: Seq[MadeCommit]): Unit = try {
    for {
      id <- Option(context.session.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
      execution <- Option(SQLExecution.getQueryExecution(id.toLong))
    } {
      val plan = execution.optimizedPlan
      plan.setTagValue(Tag, of(plan) ++ made.map(commit => NotedCommit(context.session, context.locationOf(commit.table), commit)))
    }
  } catch { case e @ (NonFatal(_) | _: LinkageError) => logDebug("listeners will not see a commit", e) }

  /** What was noted at a plan. */
  def of(plan: LogicalPlan): Seq[NotedCommit] = plan.getTagValue(Tag).getOrElse(Nil)
}
