package headwater.spark.statements

import headwater.spark.HeadwaterException
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LeafNode

/** A text for which the handler returned an error; the analyzer throws it. */
case class RefusedStatement(error: HeadwaterException) extends LeafNode {
  override lazy val resolved: Boolean = false
  override def output: Seq[Attribute] = Nil
  override def nodeName: String = "refused"
}
