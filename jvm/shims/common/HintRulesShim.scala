package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.Analyzer
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * Gives an analyzer the hint rules of extensions if it was made without them: in Spark 4.2.0, that of a session with a Hive metastore is;
 * since 4.2.1 none is. Spark has no other place for a rule that must run before it resolves tables.
 */
object HintRulesShim {
  private lazy val field = scala.util.Try {
    val rules = classOf[Analyzer].getDeclaredField("hintResolutionRules")
    rules.setAccessible(true)
    rules
  }.toOption

  def complete(analyzer: Analyzer, rules: => Seq[Rule[LogicalPlan]]): Unit =
    if (analyzer.hintResolutionRules.isEmpty) field.foreach(_.set(analyzer, rules))
}
