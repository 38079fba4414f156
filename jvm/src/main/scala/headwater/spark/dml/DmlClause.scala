package headwater.spark.dml

import org.apache.spark.sql.catalyst.expressions._

/** A clause of a MERGE, or the one an UPDATE is: `values` has one for each column of the target, `assigned` names those given. */
final case class DmlClause(kind: String, condition: Option[Expression], values: Seq[Expression] = Nil, assigned: Seq[String] = Nil)
