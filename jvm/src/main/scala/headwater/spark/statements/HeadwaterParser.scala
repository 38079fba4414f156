package headwater.spark.statements

import headwater.spark.HeadwaterException
import headwater.spark.bridge.{Bridge, Json, StatementContext}
import headwater.spark.dml.ExplainDmlCommand
import headwater.spark.shims.ForwardingParser
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{PlanWithUnresolvedIdentifier, RelationTimeTravel, UnresolvedAttribute, UnresolvedRelation, UnresolvedTable, UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.parser._
import org.apache.spark.sql.catalyst.plans.logical.{CompoundBody, CompoundPlanStatement, DescribeColumn, ExceptionHandler, LogicalPlan, SingleStatement}
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.catalyst.trees.TreePattern.{PLAN_WITH_UNRESOLVED_IDENTIFIER, RELATION_TIME_TRAVEL}
import org.apache.spark.sql.types.{DataType, StructType}

/** Hands the statements Spark's parser does not know, told by their first words, to the handler; all else to Spark. */
class HeadwaterParser(session: SparkSession, spark: ParserInterface) extends ForwardingParser(spark) {
  override def parsePlan(text: String): LogicalPlan = parsed(text)(spark.parsePlan(text))

  override def parsePlanWithParameters(text: String, parameters: ParameterContext): LogicalPlan =
    parsed(substituted(text, parameters))(spark.parsePlanWithParameters(text, parameters))

  /** One of our statements with the values its markers were given. Spark looks for markers in what it can parse: the rest reads as a select list. */
  private def substituted(text: String, parameters: ParameterContext): String = HeadwaterParser.FirstWords.findPrefixMatchOf(text) match {
    case Some(found) if HeadwaterParser.hasValues(parameters) =>
      val (begin, list) = text.splitAt(found.group("words").length)
      begin + ParameterHandler.substituteParameters("SELECT " + list, parameters)._1.stripPrefix("SELECT ")
    case _ => text
  }

  /** A parser may throw Spark's errors alone; the handler's are thrown once the statement is analyzed. */
  private def parsed(text: String)(plan: => LogicalPlan): LogicalPlan = {
    HiveSessionClassLoader.protect()
    try own(text).getOrElse(own(refused(text)(plan)))
    catch { case e: HeadwaterException => RefusedStatement(e) }
  }

  /** A text that Spark refuses may be another system's statement, of which the handler says what to use instead. */
  private def refused(text: String)(parsed: => LogicalPlan): LogicalPlan = try parsed catch {
    case e: ParseException =>
      try Bridge.call(new StatementContext(session), "not_parsed", "text" -> text)
      catch { case unreachable: HeadwaterException if unreachable.getCondition.startsWith("HEADWATER_HANDLER") => }
      throw e
  }

  private def own(plan: LogicalPlan): LogicalPlan = plan match {
    // Spark's own way to replace what is in a body leaves out its handlers.
    case body: CompoundBody => CurrentOrigin.withOrigin(body.origin)(body.copy(
      collection = body.collection.map(own(_).asInstanceOf[CompoundPlanStatement]),
      handlers = body.handlers.map(own(_).asInstanceOf[ExceptionHandler])))
    case statement: SingleStatement =>
      CurrentOrigin.withOrigin(statement.origin)(SingleStatement(own(described(statement.parsedPlan).getOrElse(statement.parsedPlan))))
    case part: CompoundPlanStatement => part.mapChildren(own)
    case other => HeadwaterParser.own(other)
  }

  /** Within a script, whose text is Spark's alone to parse, `DESCRIBE HISTORY t` comes as the column `t` of a table `HISTORY`. */
  private def described(plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case DescribeColumn(table: UnresolvedTableOrView, UnresolvedAttribute(name), false, _) if table.multipartIdentifier.size == 1 =>
      own(s"DESCRIBE ${table.multipartIdentifier.head} ${name.map(part => "`" + part.replace("`", "``") + "`").mkString(".")}")
    case _ => None
  }

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
    def table(parts: Seq[String]) = UnresolvedTable(parts, "DESCRIBE")
    if (isPath) table(Seq("delta", name))
    else if (HeadwaterParser.Identifier.findPrefixOf(name).isEmpty) table(spark.parseMultipartIdentifier(name))
    else spark.parsePlan(s"SELECT * FROM $name").collectFirst {
      case UnresolvedRelation(parts, _, _) => table(parts)
      case named: PlanWithUnresolvedIdentifier => new PlanWithUnresolvedIdentifier(named.identifierExpr, Nil, (parts, _) => table(parts))
    }.get
  }
}

object HeadwaterParser {
  private def own(plan: LogicalPlan): LogicalPlan = ExplainDmlCommand(qualified(plan))

  /**
   * Names the catalog of a path that is travelled to, or is the value of an expression: Spark would take two parts for files of a format, which
   * cannot travel, where the time, or the path, is an expression that takes it a second look to resolve.
   */
  private def qualified(plan: LogicalPlan): LogicalPlan =
    plan.transformDownWithSubqueriesAndPruning(_.containsAnyPattern(RELATION_TIME_TRAVEL, PLAN_WITH_UNRESOLVED_IDENTIFIER)) {
      case travel @ RelationTimeTravel(relation: UnresolvedRelation, _, _) => travel.copy(relation = inCatalog(relation))
      case named: PlanWithUnresolvedIdentifier => named.copy(planBuilder = (parts, children) => named.planBuilder(parts, children) match {
        case relation: UnresolvedRelation => inCatalog(relation)
        case other => other
      })
    }

  private def inCatalog(relation: UnresolvedRelation): UnresolvedRelation = relation.multipartIdentifier match {
    case Seq(format, _) if format.equalsIgnoreCase("delta") =>
      val named = relation.copy(multipartIdentifier = "spark_catalog" +: relation.multipartIdentifier)
      named.copyTagsFrom(relation)
      named
    case _ => relation
  }

  private def hasValues(parameters: ParameterContext): Boolean = parameters match {
    case NamedParameterContext(values) => values.nonEmpty
    case PositionalParameterContext(values) => values.nonEmpty
    case HybridParameterContext(values, _) => values.nonEmpty
  }

  /** A name that is the value of an expression. */
  private val Identifier = raw"(?i)identifier\s*\(".r

  /** How a URI begins; a name that has one in backticks does not. */
  private val Uri = "[A-Za-z][A-Za-z0-9+.-]*:/".r

  /** Spark reads `DESCRIBE HISTORY t` as column `t` of a table `HISTORY`, so these are looked at first. */
  private val FirstWords = raw"(?is)(?<words>(\s|--[^\n]*\n|/\*.*?\*/)*desc(ribe)?\s+(history|detail)\s+)\S.*".r
}
