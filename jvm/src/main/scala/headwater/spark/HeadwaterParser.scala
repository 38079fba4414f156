package headwater.spark

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.{RelationTimeTravel, UnresolvedRelation, UnresolvedTable}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{ParameterContext, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreePattern.RELATION_TIME_TRAVEL
import org.apache.spark.sql.types.{DataType, StructType}

/** Hands the statements Spark's parser does not know, told by their first words, to the handler; all else to Spark. */
class HeadwaterParser(session: SparkSession, spark: ParserInterface) extends ParserInterface {
  override def parsePlan(text: String): LogicalPlan = own(text).getOrElse(HeadwaterParser.own(spark.parsePlan(text)))

  override def parsePlanWithParameters(text: String, parameters: ParameterContext): LogicalPlan =
    own(text).getOrElse(HeadwaterParser.own(spark.parsePlanWithParameters(text, parameters)))

  private def own(text: String): Option[LogicalPlan] =
    if (HeadwaterParser.FirstWords.findPrefixOf(text).isEmpty) None
    else {
      val parsed = Bridge.call(new StatementContext(session), "parse", "text" -> text)
      if (parsed.isNull) None
      else {
        val schema = DataType.fromJson(parsed.get("output").asText()).asInstanceOf[StructType]
        val name = parsed.get("table").asText()
        val arguments = parsed.get("arguments")
        Some(HeadwaterStatement(parsed.get("command").asText(), target(name), Json.write(arguments), schema))
      }
    }

  private def target(name: String): LogicalPlan = {
    val isPath = name.startsWith("/") || HeadwaterParser.Uri.findPrefixOf(name).isDefined
    val parts = if (isPath) Seq("delta", name) else spark.parseMultipartIdentifier(name)
    UnresolvedTable(parts, "DESCRIBE")
  }

  override def parseExpression(text: String): Expression = spark.parseExpression(text)
  override def parseTableIdentifier(text: String): TableIdentifier = spark.parseTableIdentifier(text)
  override def parseFunctionIdentifier(text: String): FunctionIdentifier = spark.parseFunctionIdentifier(text)
  override def parseMultipartIdentifier(text: String): Seq[String] = spark.parseMultipartIdentifier(text)
  override def parseQuery(text: String): LogicalPlan = spark.parseQuery(text)
  override def parseRoutineParam(text: String): StructType = spark.parseRoutineParam(text)
  override def parseTableSchema(text: String): StructType = spark.parseTableSchema(text)
  override def parseDataType(text: String): DataType = spark.parseDataType(text)
}

object HeadwaterParser {
  private def own(plan: LogicalPlan): LogicalPlan = ExplainDml(qualified(plan))

  /**
   * Names the catalog of a path that is travelled to: Spark would take two parts for files of a format, which cannot travel, where the
   * time is an expression that takes it a second look to resolve.
   */
  private def qualified(plan: LogicalPlan): LogicalPlan = plan.transformDownWithSubqueriesAndPruning(_.containsPattern(RELATION_TIME_TRAVEL)) {
    case travel @ RelationTimeTravel(relation @ UnresolvedRelation(Seq(format, _), _, _), _, _) if format.equalsIgnoreCase("delta") =>
      travel.copy(relation = relation.copy(multipartIdentifier = "spark_catalog" +: relation.multipartIdentifier))
  }

  /** How a URI begins; a name that has one in backticks does not. */
  private val Uri = "[A-Za-z][A-Za-z0-9+.-]*:/".r

  /** Spark reads `DESCRIBE HISTORY t` as column `t` of a table `HISTORY`, so these are looked at first. */
  private val FirstWords = raw"(?is)(\s|--[^\n]*\n|/\*.*?\*/)*desc(ribe)?\s+(history|detail)\s+\S.*".r
}
