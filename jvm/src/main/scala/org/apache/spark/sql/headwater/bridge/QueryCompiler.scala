package org.apache.spark.sql.headwater.bridge

import java.util.Locale

import headwater.spark.HeadwaterException
import headwater.spark.dml.{CollectKeys, CountRow, IsMatched, KeySetAccumulator, RowCounter}
import headwater.spark.layout.{CurveKey, RangeId}
import headwater.spark.write.{OptimizedWrite, PositionSet, RaiseRowError}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{
  ExpressionWithUnresolvedIdentifier, SQLScalarFunction, UnresolvedAttribute, UnresolvedFunction, UnresolvedRelation
}
import org.apache.spark.sql.catalyst.expressions.{
  Alias, Expression, ExprId, Literal, PlanExpression, SparkVersion, UserDefinedExpression, VariableReference
}
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalRelation, LogicalPlan, OneRowRelation, Project, UnresolvedHint}
import org.apache.spark.sql.catalyst.trees.{CurrentOrigin, Origin, TreePattern}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructType, TimestampType}

/**
 * Turns a handler's rewrite, a SQL query with placeholders, into a plan. ``hw_plan.`n` `` becomes the n-th plan of the statement,
 * ``hw_expr.`n` `` its n-th expression; `raise_row_error`, `is_matched`, `count_row`, `note_keys`, `range_id`, `z_order` and
 * `hilbert` become [[RaiseRowError]], [[IsMatched]], [[CountRow]], [[CollectKeys]], [[RangeId]] and [[CurveKey]]; the hint
 * `OPTIMIZED_WRITE` becomes [[OptimizedWrite]].
 *
 * The handler wrote the query, and nothing in it comes from a user: names and literals are quoted, users' expressions are parsed on their
 * own ([[parse]]). So it is parsed with default settings, whatever the session's are.
 */
object QueryCompiler {
  def compile(
      session: SparkSession,
      sql: String,
      plans: Seq[LogicalPlan],
      expressions: Seq[Expression],
      matched: PositionSet,
      counter: RowCounter,
      keys: => KeySetAccumulator): LogicalPlan = {
    fill(
      withDefaultRules(session)(parser(session).parsePlan(sql)),
      plans,
      {
        case UnresolvedAttribute(Seq("hw_expr", n)) => expressions(n.toInt)
        case f: UnresolvedFunction if f.nameParts == Seq("is_matched") => IsMatched(f.arguments(0), matched)
        case f: UnresolvedFunction if f.nameParts == Seq("count_row") => CountRow(counter)
        case f: UnresolvedFunction if f.nameParts == Seq("note_keys") => CollectKeys(f.arguments, keys)
        case f: UnresolvedFunction if f.nameParts == Seq("range_id") => RangeId(f.arguments(0), f.arguments(1))
        case f: UnresolvedFunction if f.nameParts == Seq("z_order") => CurveKey(f.arguments.head, f.arguments.tail, isHilbert = false)
        case f: UnresolvedFunction if f.nameParts == Seq("hilbert") => CurveKey(f.arguments.head, f.arguments.tail, isHilbert = true)
        case f: UnresolvedFunction if f.nameParts == Seq("raise_row_error") => RaiseRowError(f.arguments(0), f.arguments(1), f.arguments(2))
      })
  }

  /** The same for a query that reads, over plans alone; resolved. */
  def compile(session: SparkSession, sql: String, plans: Seq[LogicalPlan]): LogicalPlan =
    SparkInternals.logicalPlan(SparkInternals.ofRows(
      session,
      fill(withDefaultRules(session)(parser(session).parsePlan(sql)), plans, PartialFunction.empty)))

  /** Parses an expression that Headwater composed of resolved ones. */
  def parseComposed(session: SparkSession, text: String): Expression = withDefaultRules(session)(parse(session, text))

  /** Parses an expression that a user wrote, without its alias. Throws Spark's own error. The result is unresolved. */
  def parse(session: SparkSession, text: String): Expression =
    // An error shows its place in this text, not in the statement that runs.
    unlessTooDeep(text)(CurrentOrigin.withOrigin(Origin())(parser(session).parseExpression(text)) match {
      case Alias(named, _) => named
      case other => other
    })

  /** What is done with an expression, unless Spark's stack overflows. Then the error says which expression it was. */
  def unlessTooDeep[T](text: String)(done: => T): T = try done
  catch { case _: StackOverflowError => throw tooDeep(text) }

  def tooDeep(text: String): HeadwaterException =
    HeadwaterException("HEADWATER_EXPRESSION_TOO_DEEP", "expression" -> (if (text.length > 200) s"${text.take(200)}…" else text))

  /** How deep an expression is nested. How many levels Spark takes depends on their kind, and on the stack that its threads have. */
  def levels(expression: Expression): Int = 1 + expression.children.map(levels).maxOption.getOrElse(0)

  /** Spark's functions that call a Java method by name. */
  private val CallJava = Set("reflect", "java_method", "try_reflect")

  /**
   * The same as [[parse]] for an expression in a table's log. It means the same in each session, whatever the settings. Its author must not
   * be able to run code, or to read other tables or the process's settings, with the rights of the session that writes to the table.
   */
  def parseStored(session: SparkSession, text: String): Expression = {
    val parsed =
      try parseComposed(session, text)
      catch { case e: ParseException if e.getCondition == "FAILED_TO_PARSE_TOO_COMPLEX" => throw tooDeep(text) }
    forbidden(parsed).foreach { part =>
      throw HeadwaterException("HEADWATER_STORED_EXPRESSION_REFUSED", "expression" -> text, "part" -> part)
    }
    if (SparkInternals.conf(session).timestampType == TimestampType) parsed else parsed.transform(ofDefaultType)
  }

  /** Functions that return what the session calls TIMESTAMP, as those that return what is called so by default. */
  private val ofDefaultType: PartialFunction[Expression, Expression] = {
    case f: UnresolvedFunction if f.nameParts.size == 1 && TimestampFunctions(f.nameParts.head.toLowerCase(Locale.ROOT)) =>
      f.copy(nameParts = Seq(s"${f.nameParts.head}_ltz"))
  }
  private val TimestampFunctions = Set("to_timestamp", "make_timestamp", "try_make_timestamp")

  /** The part of an expression that none in a table's log may have. */
  private def forbidden(parsed: Expression): Option[String] = parsed.collectFirst {
    case f: UnresolvedFunction if CallJava(f.nameParts.last.toLowerCase(Locale.ROOT)) => f.nameParts.last
    case _: PlanExpression[_] => "a subquery"
    // It may name a function by an expression, which nobody knows before it is evaluated.
    case _: ExpressionWithUnresolvedIdentifier => "IDENTIFIER"
  }

  /**
   * Why an expression that a user wrote over a schema cannot be stored in a table's log: a part that [[parseStored]] refuses, a variable
   * of this session, a function of a user, or a meaning that it has only under the settings of this session.
   */
  def notStorable(session: SparkSession, text: String, schema: StructType): Option[HeadwaterException] = {
    val parsed = parse(session, text)
    // In a stored text, TIMESTAMP is TIMESTAMP_LTZ. The type of a generated column still decides about its values.
    def inOthers = withDefaults(session, TextRules)(scala.util.Try(parse(session, text)).toOption)
    def first(part: PartialFunction[Expression, String]) = resolved(session, parsed, schema).flatMap(_.collectFirst(part)).headOption
    def variable = first { case v: VariableReference => s"the variable ${v.sql}" }
    def function = first { case f if isOfUser(f) => f.sql }
    forbidden(parsed).orElse(variable).map(part =>
      HeadwaterException("HEADWATER_EXPRESSION_NOT_STORABLE", "expression" -> text, "part" -> part)).orElse(
      function.map(used => HeadwaterException("DELTA_UDF_IN_CHECK_CONSTRAINT", "expr" -> used))).orElse(
      Option.when(!inOthers.map(withoutIds).contains(withoutIds(parsed)))(
        HeadwaterException("HEADWATER_EXPRESSION_OF_SETTINGS", "expression" -> text)))
  }

  /** An unresolved expression without the ids by which each parse tells its aliases apart. */
  private def withoutIds(parsed: Expression): Expression = parsed.transformUp { case a: Alias => Alias(a.child, a.name)(ExprId(0)) }

  /** The same as [[parse]], with each column under a qualifier. */
  def qualified(session: SparkSession, text: String, qualifier: String): Expression =
    parse(session, text).transform { case UnresolvedAttribute(names) => UnresolvedAttribute(qualifier +: names) }

  /** Parses a SELECT without FROM that a user wrote, and resolves it over the rows of a plan. Throws Spark's own error. */
  def selection(session: SparkSession, text: String, rows: LogicalPlan, names: Seq[String]): LogicalPlan = {
    val parsed = CurrentOrigin.withOrigin(Origin())(parser(session).parseQuery(text))
    // A subquery is no child, so the row that it selects from stays.
    val selected = SparkInternals.analyzed(session, parsed.transform { case _: OneRowRelation => rows })
    if (names.isEmpty) selected else Project(selected.output.zip(names).map { case (column, name) => Alias(column, name)() }, selected)
  }

  /** Parses and resolves a query that a user wrote. Throws Spark's own error. */
  def query(session: SparkSession, text: String): LogicalPlan =
    SparkInternals.analyzed(session, CurrentOrigin.withOrigin(Origin())(parser(session).parseQuery(text)))

  private def parser(session: SparkSession) = session.asInstanceOf[ClassicSession].sessionState.sqlParser

  /** Settings by which Spark's parser gives a text another meaning, without [[TypeRules]]. */
  private val TextRules: Seq[String] = Seq(
    SQLConf.ESCAPED_STRING_LITERALS.key,
    SQLConf.DOUBLE_QUOTED_IDENTIFIERS.key,
    SQLConf.SUPPORT_QUOTED_REGEX_COLUMN_NAME.key,
    SQLConf.ENFORCE_RESERVED_KEYWORDS.key,
    "spark.sql.legacy.consecutiveStringLiterals.enabled",
    SQLConf.LEGACY_EXPONENT_LITERAL_AS_DECIMAL_ENABLED.key,
    SQLConf.LEGACY_INTERVAL_ENABLED.key,
    SQLConf.LEGACY_DUPLICATE_BETWEEN_INPUT.key,
    SQLConf.LEGACY_SETOPS_PRECEDENCE_ENABLED.key,
    SQLConf.LEGACY_HAVING_WITHOUT_GROUP_BY_AS_WHERE.key,
    SQLConf.ANSI_RELATION_PRECEDENCE.key)

  /** Settings that say which type the word TIMESTAMP names. */
  private val TypeRules: Seq[String] = Seq(SQLConf.TIMESTAMP_TYPE.key)

  private val Rules = TextRules ++ TypeRules

  private def withDefaultRules[T](session: SparkSession)(work: => T): T = withDefaults(session, Rules)(work)

  private def withDefaults[T](session: SparkSession, rules: Seq[String])(work: => T): T = {
    val plain = SparkInternals.conf(session).clone()
    // Spark warns of deprecated ones, whether they are set or not.
    rules.filter(plain.contains).foreach(plain.unsetConf)
    // Spark would put settings, and variables of the process, into the text: `${env:HOME}`.
    plain.setConf(SQLConf.VARIABLE_SUBSTITUTE_ENABLED, false)
    SQLConf.withExistingConf(plain)(work)
  }

  private def fill(plan: LogicalPlan, plans: Seq[LogicalPlan], expressions: PartialFunction[Expression, Expression]): LogicalPlan =
    plan.transformUp {
      case UnresolvedRelation(Seq("hw_plan", n), _, _) => plans(n.toInt)
      case UnresolvedHint(OptimizedWrite.Hint, Literal(partitions: Int, _) +: Literal(bytes, _) +: keys, child) =>
        OptimizedWrite(keys, partitions, bytes.toString.toLong, child)
      // Upwards, so that nothing inside a replacement is taken for a placeholder.
      case node => node.transformExpressionsUp(expressions)
    }

  /** The type of an expression over a schema. Throws Spark's own error if it does not resolve. */
  def expressionType(session: SparkSession, text: String, schema: StructType): DataType =
    SparkInternals.ofRows(session, Project(Seq(Alias(parse(session, text), "value")()), over(schema))).schema.head.dataType

  /**
   * The parts of an expression over a schema that give something else than what follows from a row: the time, the session, chance,
   * functions of users. Each as SQL. Throws Spark's own error if the expression does not resolve.
   */
  def beyondRow(session: SparkSession, text: String, schema: StructType): Seq[String] =
    resolved(session, parse(session, text), schema).flatMap(_.collect {
      case e if e.containsPattern(TreePattern.CURRENT_LIKE) && !e.children.exists(_.containsPattern(TreePattern.CURRENT_LIKE)) => e
      case e: PlanExpression[_] => e
      case e if isOfUser(e) => e
      case e: SparkVersion => e
      case e: VariableReference => e
      case e if !e.deterministic && e.children.forall(_.deterministic) => e
    }).map(_.sql)

  /** Whether it calls a function that other sessions may not have, or have with another meaning: of the session, or of its catalog. */
  private def isOfUser(expression: Expression): Boolean = expression match {
    case _: UserDefinedExpression | _: SQLScalarFunction => true
    case _ => false
  }

  private def resolved(session: SparkSession, parsed: Expression, schema: StructType): Seq[Expression] =
    SparkInternals.logicalPlan(SparkInternals.ofRows(session, Project(Seq(Alias(parsed, "value")()), over(schema)))).expressions

  /** A condition over a schema, resolved. Throws Spark's own error if it does not resolve. */
  def condition(session: SparkSession, parsed: Expression, schema: StructType): Expression =
    SparkInternals.logicalPlan(SparkInternals.ofRows(session, Filter(parsed, over(schema)))).collectFirst {
      case Filter(condition, _) => condition
    }.get

  private def over(schema: StructType): LocalRelation =
    LocalRelation(SparkInternals.attributes(schema))
}
