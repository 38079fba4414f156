package headwater.spark.statements

import headwater.spark.HeadwaterException
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.headwater.SparkInternals

/** The table function that the handler writes in place of `(DESCRIBE …)` in a query. Its argument is the statement's text. */
object DescribeFunction {
  private val Name = "headwater_describe"

  val Entry: (FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan) =
    (FunctionIdentifier(Name), new ExpressionInfo(classOf[HeadwaterStatement].getName, Name), statement(_))

  private def statement(arguments: Seq[Expression]): LogicalPlan = {
    val text = arguments match {
      case Seq(text) if text.foldable => String.valueOf(text.eval())
      case _ => ""
    }
    SparkInternals.parsed(SparkSession.active, text) match {
      // Its columns get ids of their own wherever a query has it twice, as those of a join of a DataFrame with itself.
      case described: HeadwaterStatement if described.command.startsWith("describe_") =>
        Project(described.rows.toSeq.flatMap(_.names).map(name => Alias(UnresolvedAttribute(Seq(name)), name)()), described)
      case refused: RefusedStatement => refused
      // An error that this throws would be replaced by one of Spark, so a statement carries it.
      case _ =>
        RefusedStatement(HeadwaterException("PARSE_SYNTAX_ERROR", "statement" -> text, "reason" -> s"$Name takes the text of a DESCRIBE"))
    }
  }
}
