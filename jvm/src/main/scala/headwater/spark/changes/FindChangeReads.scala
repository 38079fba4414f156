package headwater.spark.changes

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_RELATION

/** Finds reads with the option for changes before Spark resolves the table: the columns of the query depend on it. */
case class FindChangeReads(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUpWithPruning(_.containsPattern(UNRESOLVED_RELATION)) {
    case relation: UnresolvedRelation
        if !relation.isStreaming && relation.getTagValue(FindChangeReads.Found).isEmpty =>
      HeadwaterChangelog.asked(session, relation.options).map { form =>
        val found = relation.copy()
        found.copyTagsFrom(relation)
        found.setTagValue(FindChangeReads.Found, ())
        ChangesOf(found, HeadwaterChangelog.bounds(session, relation.options), form, None)
      }.getOrElse(relation)
  }
}

private[spark] object FindChangeReads {
  val Found: TreeNodeTag[Unit] = TreeNodeTag[Unit]("headwater_changes_found")
}
