package headwater.spark.shims

import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkSqlParser
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * Passes everything on to another parser, which may be another extension's.
 *
 * `ParserInterface` has different methods in each Spark: 4.1 added `parsePlanWithParameters`, which `ParserShim` has, and 4.3
 * `splitStatements` and `parseTemporalTableIdentifier`. This class forwards the methods that all supported versions share, and inherits the
 * others from Spark's own parser. So it compiles with each version, and runs on each.
 */
abstract class ForwardingParser(spark: ParserInterface) extends SparkSqlParser {
  override def parsePlan(text: String): LogicalPlan = parse(text, None)(spark.parsePlan)

  /** The plan of a statement. `plan` is how the other parser parses a text with these values. */
  protected def parse(text: String, values: Option[ParameterValues])(plan: String => LogicalPlan): LogicalPlan

  override def parseExpression(text: String): Expression = spark.parseExpression(text)
  override def parseTableIdentifier(text: String): TableIdentifier = spark.parseTableIdentifier(text)
  override def parseFunctionIdentifier(text: String): FunctionIdentifier = spark.parseFunctionIdentifier(text)
  override def parseMultipartIdentifier(text: String): Seq[String] = spark.parseMultipartIdentifier(text)
  override def parseQuery(text: String): LogicalPlan = spark.parseQuery(text)
  override def parseRoutineParam(text: String): StructType = spark.parseRoutineParam(text)
  override def parseTableSchema(text: String): StructType = spark.parseTableSchema(text)
  override def parseDataType(text: String): DataType = spark.parseDataType(text)
}
