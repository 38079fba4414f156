package headwater.spark.statements

import headwater.spark.changes.FindChangeReads
import headwater.spark.dml.{InlineApiViews, ResolveTargetViews}
import headwater.spark.scan.tables.TravelByDefault
import headwater.spark.shims.HintRulesShim
import headwater.spark.streaming.StartStreams
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.headwater.SparkInternals

/** The rules that see a plan before Spark resolves the tables in it. Spark runs them as hint rules. */
private[spark] object EarlyRules {
  val All: Seq[SparkSession => Rule[LogicalPlan]] =
    Seq(InlineApiViews(_), ResolvePathTables(_), ResolveTargetViews(_), FindChangeReads(_), TravelByDefault(_), StartStreams(_))

  /** Sees to it that a session has them: some of Spark's ignore hint rules. */
  def complete(session: SparkSession): Unit = HintRulesShim.complete(SparkInternals.analyzer(session), All.map(_(session)))
}
