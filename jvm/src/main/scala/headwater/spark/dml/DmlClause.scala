package headwater.spark.dml

import org.apache.spark.sql.catalyst.expressions._

/**
 * A clause of a MERGE, or the only one of an UPDATE.
 *
 * @param values one for each column of the target
 * @param assigned the columns that the user assigned a value
 */
final case class DmlClause(kind: String, condition: Option[Expression], values: Seq[Expression] = Nil, assigned: Seq[String] = Nil)
