package headwater.spark.dml

import headwater.spark.bridge.StatementContext
import headwater.spark.bridge.messages.{ChangeClause, ChangeRequest, Conjunct, KeyEquality}
import headwater.spark.catalog.{HeadwaterTable, SameTable}
import headwater.spark.scan.filters.PredicateTree
import headwater.spark.scan.tables.HeadwaterFileIndex
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalRelation, LogicalPlan, OneRowRelation, Project, SubqueryAlias, View}
import org.apache.spark.sql.catalyst.util.MetadataColumnHelper
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.ProducedRows

/**
 * The resolved pieces of a DELETE, UPDATE or MERGE. They are no expressions of the command, because Spark would then optimize subqueries in
 * them before they become part of the rewrite.
 */
final case class DmlPieces(
    target: LogicalRelation,
    source: Option[LogicalPlan],
    condition: Option[Expression],
    matched: Seq[DmlClause] = Nil,
    notMatched: Seq[DmlClause] = Nil,
    notMatchedBySource: Seq[DmlClause] = Nil) {

  /** The handler's request: pieces by their numbers, conditions as trees for pruning and as text for the table's history. */
  def request(statement: String, context: StatementContext, table: HeadwaterTable): ChangeRequest =
    atStatementTime.described(statement, context, table, this)

  /** The same pieces with `current_timestamp()` and the like as constants, because a statement may run several jobs. */
  private def atStatementTime: DmlPieces = {
    val fixed = SparkInternals.withCurrentTime(Project(
      expressions.map(Alias(_, "value")()),
      source.getOrElse(OneRowRelation()))).asInstanceOf[Project]
    val values = fixed.projectList.map(_.asInstanceOf[Alias].child).iterator
    def of(clauses: Seq[DmlClause]) =
      clauses.map(c => c.copy(condition = c.condition.map(_ => values.next()), values = c.values.map(_ => values.next())))
    val condition = this.condition.map(_ => values.next())
    val (matched, notMatched) = (of(this.matched), of(this.notMatched))
    copy(
      source = source.map(_ => fixed.child),
      condition = condition,
      matched = matched,
      notMatched = notMatched,
      notMatchedBySource = of(notMatchedBySource))
  }

  /** @param written the same pieces as the user wrote them */
  private def described(
      statement: String,
      context: StatementContext,
      table: HeadwaterTable,
      written: DmlPieces): ChangeRequest = ChangeRequest(
    table = table.path,
    name = table.name(),
    version = table.snapshotVersion,
    tableId = table.info.tableId,
    tableSchema = table.info.tableSchema,
    target = context.addPlan(target),
    columns = target.output.filterNot(_.isMetadataCol).map(context.addExpression),
    source = source.map(context.addPlan),
    sourceColumns = source.map(_.output.map(context.addExpression)).getOrElse(Nil),
    sourceNames = source.map(_.output.map(_.name)).getOrElse(Nil),
    sourceDeterministic = source.forall(plan => !plan.exists(!_.deterministic)),
    sourceBytes = source.map(ProducedRows.bytes),
    sourceIsScan = source.exists(isScan),
    condition = condition.map(context.addExpression),
    conditionDeterministic = condition.forall(isStable),
    conditionText = written.condition.map(text),
    conditionColumns = condition.toSeq.flatMap(_.references.filter(target.outputSet.contains)).map(_.name),
    conjuncts = parts(context, condition),
    runsPython = runsPython,
    readsTargetElsewhere = readsElsewhere(table),
    matched = matched.zip(written.matched).map(describe(context, _)),
    notMatched = notMatched.zip(written.notMatched).map(describe(context, _)),
    notMatchedBySource = notMatchedBySource.zip(written.notMatchedBySource)
      .map(c => describe(context, c).copy(conjuncts = parts(context, c._1.condition))))(statement)

  def expressions: Seq[Expression] =
    condition.toSeq ++ (matched ++ notMatched ++ notMatchedBySource).flatMap(clause => clause.condition ++ clause.values)

  /** Whether a Python UDF is involved: Spark runs those for every row, whatever condition guards them. */
  private def runsPython: Boolean = expressions.exists(_.exists(_.isInstanceOf[PythonUDF]))

  /** Whether reading a source a second time costs no more than reading its files. */
  private def isScan(plan: LogicalPlan): Boolean = plan.deterministic && plan.subqueries.isEmpty &&
    (plan match {
      case LogicalRelation(_: HadoopFsRelation, _, _, _, _) | _: LocalRelation => true
      case _: Project | _: Filter | _: SubqueryAlias | _: View => plan.children.forall(isScan)
      case _ => false
    })

  /** Whether a condition is true for the same rows every time; a subquery with a LIMIT, for example, may return other rows. */
  private def isStable(condition: Expression): Boolean = condition.deterministic && !condition.exists {
    case subquery: PlanExpression[_] => subquery.plan match {
        case plan: LogicalPlan => !isScan(plan)
        case _ => true
      }
    case _ => false
  }

  /** Whether the source or an expression reads some version of a table. */
  def readsElsewhere(table: HeadwaterTable): Boolean = {
    def reads(plan: LogicalPlan): Boolean = plan.exists {
      case HeadwaterFileIndex.Of(index) =>
        SameTable(table.path, table.info.tableId, index.path, index.state.tableId)
      case other => other.subqueries.exists(reads)
    }
    source.exists(reads) || expressions.exists(_.exists {
      case subquery: PlanExpression[_] => subquery.plan match {
          case plan: LogicalPlan => reads(plan)
          case _ => false
        }
      case _ => false
    })
  }

  private def describe(context: StatementContext, clause: (DmlClause, DmlClause)): ChangeClause = {
    val (fixed, written) = clause
    ChangeClause(
      kind = fixed.kind,
      condition = fixed.condition.map(context.addExpression),
      conditionText = written.condition.map(text),
      values = fixed.values.map(context.addExpression),
      assigned = fixed.assigned)
  }

  private def parts(context: StatementContext, condition: Option[Expression]): Seq[Conjunct] =
    condition.toSeq.flatMap(conjuncts).map(describe(context, _))

  private def conjuncts(condition: Expression): Seq[Expression] = condition match {
    case And(left, right) => conjuncts(left) ++ conjuncts(right)
    case other => Seq(other)
  }

  /**
   * One conjunct of the condition: a tree if it only needs a row of the target, a key if a column of the target equals an expression over
   * the source.
   */
  private def describe(context: StatementContext, conjunct: Expression): Conjunct = {
    val columns = target.outputSet
    conjunct match {
      case other if other.references.subsetOf(columns) =>
        Conjunct(target = Option.when(PredicateTree.isOverRow(other))(PredicateTree.of(other)))
      case EqualTo(a, b) if isKey(a) && isOfSource(b) => key(context, a, b)
      case EqualTo(b, a) if isKey(a) && isOfSource(b) => key(context, a, b)
      case _ => Conjunct()
    }
  }

  private def isKey(e: Expression): Boolean = e match {
    case column: AttributeReference => target.outputSet.contains(column) && SparkInternals.comparesBytes(column.dataType)
    case _ => false
  }

  private def isOfSource(e: Expression): Boolean =
    e.deterministic && e.references.nonEmpty && source.exists(plan => e.references.subsetOf(plan.outputSet)) &&
      !e.exists(_.isInstanceOf[PlanExpression[_]])

  private def key(context: StatementContext, column: Expression, value: Expression): Conjunct =
    Conjunct(key = Some(KeyEquality(column.asInstanceOf[AttributeReference].name, context.addExpression(value), value.dataType.json)))

  /** SQL for users: columns are qualified only if there are two tables. */
  private def text(condition: Expression): String = condition.transform { case column: AttributeReference =>
    column.withQualifier(if (source.isEmpty) Nil else column.qualifier.takeRight(1))
  }.sql
}
