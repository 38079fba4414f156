package headwater.spark.shims

import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.trees.TreePattern

/** A parser of a Spark that replaces parameter markers in plans, and so has no values when it parses. */
abstract class ParserShim(spark: ParserInterface) extends ForwardingParser(spark)

object ParserShim {
  /** The mark of plans in which an expression computes a name. */
  val UnresolvedIdentifier: TreePattern.TreePattern = TreePattern.UNRESOLVED_IDENTIFIER
}
