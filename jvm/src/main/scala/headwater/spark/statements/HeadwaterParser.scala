package headwater.spark.statements

import java.util.UUID
import java.util.regex.Pattern

import headwater.spark.HeadwaterException
import headwater.spark.bridge.{Bridge, SchemaText}
import headwater.spark.bridge.messages.{NotParsedRequest, ParameterMarkersRequest, ParsedStatement, ParsedStatementRequest, ParseRequest}
import headwater.spark.dml.ExplainDmlCommand
import headwater.spark.shims.{MarkedText, ParameterValues, ParserShim}
import headwater.spark.write.ReplaceCriteria
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{
  PlanWithUnresolvedIdentifier, RelationTimeTravel, UnresolvedAttribute, UnresolvedRelation, UnresolvedTable, UnresolvedTableOrView
}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.parser._
import org.apache.spark.sql.catalyst.plans.logical.{
  CompoundBody, CompoundPlanStatement, DescribeColumn, ExceptionHandler, LogicalPlan, SingleStatement
}
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.catalyst.trees.TreePattern.RELATION_TIME_TRAVEL
import org.apache.spark.sql.execution.command.{DescribeQueryCommand, ExplainCommand}
import org.apache.spark.sql.headwater.bridge.QueryCompiler
import org.apache.spark.sql.internal.VariableSubstitution
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

/**
 * Parses the statements that Spark's parser does not know: their first words identify them, and the handler parses the rest. Everything
 * else goes to Spark's parser.
 */
class HeadwaterParser(session: SparkSession, spark: ParserInterface) extends ParserShim(spark) {
  @volatile private var hasEarlyRules = false

  /** Each way to a table's name goes through the session's parser, so this is in time; when the parser is made, the session is not yet. */
  private def completeRules(): Unit = if (!hasEarlyRules) {
    EarlyRules.complete(session)
    hasEarlyRules = true
  }

  override def parseMultipartIdentifier(text: String): Seq[String] = {
    completeRules()
    super.parseMultipartIdentifier(text)
  }

  /**
   * One of our statements with values in place of its variables, `${name}`, and of its parameter markers. Spark substitutes markers only in
   * what it can parse, so they pose as a select list.
   */
  private def substituted(written: String, parameters: Option[ParameterValues]): String = {
    val text = new VariableSubstitution().substitute(written)
    parameters.filterNot(_.isEmpty).map(withMarkers(text, _)).getOrElse(text)
  }

  private def withMarkers(text: String, values: ParameterValues): String = {
    val written = marked(text)
    if (written.markers.isEmpty) text
    else {
      val between = s" /*${UUID.randomUUID()}*/, "
      val literals = values.substitute("SELECT " + written.markers.mkString(between)).stripPrefix("SELECT ").split(Pattern.quote(between))
      written.withValues(literals(_))
    }
  }

  private def marked(text: String): MarkedText = MarkedText(Bridge.call(session, ParameterMarkersRequest(text)))

  /** A parser may only throw errors of Spark's own; the handler's errors are thrown when the statement is analyzed. */
  override protected def parse(text: String, parameters: Option[ParameterValues])(plan: String => LogicalPlan): LogicalPlan = {
    HiveSessionClassLoader.protect()
    completeRules()
    try early(text, parameters).getOrElse(own(QueryCompiler.unlessTooDeep(text)(refused(text, parameters)(plan))))
    catch { case e: HeadwaterException => RefusedStatement(e) }
  }

  /**
   * A text that Spark rejects may be a statement of ours, or one of another system; the handler's error then says what to use instead. If
   * the handler cannot be reached, Spark's error stands.
   */
  private def refused(text: String, parameters: Option[ParameterValues])(parsed: String => LogicalPlan): LogicalPlan = try parsed(text)
  catch {
    // Spark fails by the second one if REFERENCES lists no columns.
    case e @ (_: ParseException | _: NullPointerException) =>
      val found = try {
        val ours = substituted(text, parameters)
        val statement = ask(ours, parameters)
        if (statement.isEmpty) Bridge.call(session, NotParsedRequest(ours)).map(parsed) else statement
      } catch { case unreachable: HeadwaterException if HeadwaterParser.Unreachable.exists(unreachable.getCondition.startsWith) => None }
      found.getOrElse(throw e)
  }

  private def own(plan: LogicalPlan): LogicalPlan = plan match {
    // Spark's own `mapChildren` of a body leaves its handlers out.
    case body: CompoundBody => CurrentOrigin.withOrigin(body.origin)(body.copy(
        collection = body.collection.map(own(_).asInstanceOf[CompoundPlanStatement]),
        handlers = body.handlers.map(own(_).asInstanceOf[ExceptionHandler])))
    case statement: SingleStatement =>
      CurrentOrigin.withOrigin(statement.origin)(SingleStatement(own(described(statement.parsedPlan).getOrElse(statement.parsedPlan))))
    case part: CompoundPlanStatement => part.mapChildren(own)
    case other => HeadwaterParser.own(other)
  }

  /** Spark parses the text of a script alone: there, `DESCRIBE HISTORY t` arrives as column `t` of a table `HISTORY`. */
  private def described(plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case DescribeColumn(table: UnresolvedTableOrView, UnresolvedAttribute(name), false, _) if table.multipartIdentifier.size == 1 =>
      early(s"DESCRIBE ${table.multipartIdentifier.head} ${name.map(part => "`" + part.replace("`", "``") + "`").mkString(".")}", None)
    case _ => None
  }

  /** A statement of ours that Spark would read as something else. */
  private def early(text: String, parameters: Option[ParameterValues]): Option[LogicalPlan] =
    if (HeadwaterParser.Early.findPrefixOf(text).isEmpty) None else ask(substituted(text, parameters), parameters)

  private def ask(text: String, parameters: Option[ParameterValues]): Option[LogicalPlan] =
    Bridge.call(session, ParseRequest(text)).map { parsed =>
      ParserShim.awaitingValues(text, marked, spark.parseExpression).getOrElse(statement(parsed, parameters))
    }

  private def statement(parsed: ParsedStatement, parameters: Option[ParameterValues]): LogicalPlan = {
    val rows = parsed.output.map(SchemaText.read)
    parsed.creates match {
      case Some(creates) =>
        val (name, made) = HeadwaterClone.newTable(parameters.fold(spark.parsePlan(creates))(_.parse(creates)))
        HeadwaterClone(name, source(parsed, parameters), made, parsed.arguments, rows.get)
      case None if parsed.command == AtomicCommand.Command => AtomicCommand(parsed.arguments.get("script").asText)
      case None if parsed.table.isEmpty =>
        HeadwaterCommand(ParsedStatementRequest("", "", parsed.arguments)(parsed.command), "", rows.getOrElse(new StructType))
      case None => HeadwaterStatement(parsed.command, target(parsed, parameters), parsed.arguments, rows, parsed.mayCommit)
    }
  }

  /** The path in quotes, of any kind and with any escapes that Spark's strings have. None for a name, double quotes around it perhaps. */
  private def quoted(table: String): Option[String] =
    HeadwaterParser.Quote.findPrefixOf(table).map(_ => spark.parseExpression(table)).collect {
      case Literal(path: UTF8String, _) => path.toString
    }

  private def target(parsed: ParsedStatement, parameters: Option[ParameterValues]): LogicalPlan = {
    val described = if (parsed.command == DescribedPath.Command) quoted(parsed.table).map(DescribedPath(_)) else None
    def table(name: Seq[String]): LogicalPlan =
      if (parsed.command == ConvertedFolder.Command) ConvertedFolder.unresolved(name)
      else UnresolvedTable(name, HeadwaterStatement.words(parsed.command))
    described.getOrElse(named(parsed, parameters)(table))
  }

  /** What a clone is made of. A view is refused like a table of another format. */
  private def source(parsed: ParsedStatement, parameters: Option[ParameterValues]): LogicalPlan =
    named(parsed, parameters)(UnresolvedTableOrView(_, HeadwaterClone.Words, allowTempView = true))

  /** A parameter marker can stand in `identifier(…)`. */
  private def named(parsed: ParsedStatement, parameters: Option[ParameterValues])(table: Seq[String] => LogicalPlan): LogicalPlan = {
    val name = parsed.table
    val path = quoted(name)
    if (path.isDefined) {
      val quoted = table(Seq("delta", path.get))
      quoted.setTagValue(ResolvePathTables.Quoted, ())
      quoted
    } else if (HeadwaterParser.Identifier.findPrefixOf(name).isEmpty) table(spark.parseMultipartIdentifier(name))
    else parameters.fold(spark.parsePlan(s"SELECT * FROM $name"))(_.parse(s"SELECT * FROM $name")).collectFirst {
      case UnresolvedRelation(parts, _, _) => table(parts)
      case named: PlanWithUnresolvedIdentifier => new PlanWithUnresolvedIdentifier(named.identifierExpr, Nil, (parts, _) => table(parts))
    }.get
  }
}

object HeadwaterParser {
  private def own(plan: LogicalPlan): LogicalPlan = ExplainDmlCommand(ReplaceCriteria.overwrites(qualified(plan)))

  /**
   * Adds the catalog to ``delta.`/path` `` where it is read at a version or comes from an expression. When the time or the path is an
   * expression, Spark resolves it in a second pass, and would then take the two parts for files of a format, which have no versions.
   */
  private def qualified(plan: LogicalPlan): LogicalPlan = plan match {
    // What these are about is no child of theirs.
    case explain: ExplainCommand => explain.copy(logicalPlan = qualified(explain.logicalPlan))
    case describe: DescribeQueryCommand => describe.copy(plan = qualified(describe.plan))
    case other => other.transformDownWithSubqueriesAndPruning(_.containsAnyPattern(
        RELATION_TIME_TRAVEL,
        ParserShim.UnresolvedIdentifier)) {
        case travel @ RelationTimeTravel(relation: UnresolvedRelation, _, _) => travel.copy(relation = inCatalog(relation))
        case named: PlanWithUnresolvedIdentifier => named.copy(planBuilder = (parts, children) =>
            named.planBuilder(parts, children) match {
              case relation: UnresolvedRelation => inCatalog(relation)
              case other => ReplaceCriteria.overwrites(other)
            })
      }
  }

  private def inCatalog(relation: UnresolvedRelation): UnresolvedRelation = relation.multipartIdentifier match {
    case Seq(format, _) if format.equalsIgnoreCase("delta") =>
      val named = relation.copy(multipartIdentifier = "spark_catalog" +: relation.multipartIdentifier)
      named.copyTagsFrom(relation)
      named
    case _ => relation
  }

  /** How the conditions begin that say that there is no handler to ask. */
  private val Unreachable = Seq("HEADWATER_HANDLER", "HEADWATER_JAR_DOES_NOT_FIT")

  /** `identifier(…)`: a name that an expression computes. */
  private val Identifier = raw"(?i)identifier\s*\(".r

  /** How a string begins, a raw one too. */
  private val Quote = """(?i)r?['"]""".r

  /** Spark would parse `DESCRIBE HISTORY t` as column `t` of a table `HISTORY`, so the handler is asked first. Python lists the same. */
  private val FirstWords = Seq("DESC HISTORY", "DESC DETAIL", "DESC HEALTH", "DESCRIBE HISTORY", "DESCRIBE DETAIL", "DESCRIBE HEALTH")

  private val Early = {
    // Possessive, since Java's stack would not hold the ways back of some thousand spaces or comments.
    val blank = raw"(?:\s++|--[^\n]*+\n|/\*.*?\*/)"
    s"(?is)$blank*+(?:${FirstWords.map(_.replace(" ", s"$blank++")).mkString("|")})$blank++\\S.*".r
  }
}
