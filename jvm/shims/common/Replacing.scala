package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.NamedRelation
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** What an INSERT … REPLACE USING or ON says, as [[WriteShim]] finds it. */
final case class Replacing(
    table: NamedRelation,
    query: LogicalPlan,
    byName: Boolean,
    evolves: Boolean,
    using: Seq[String],
    on: Option[Expression],
    alias: Option[String])
