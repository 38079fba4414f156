package headwater.spark.dml

import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.{MergeTargetAnswer, MergeTargetRequest}
import headwater.spark.catalog.HeadwaterTable
import headwater.spark.shims.MergeShim
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.headwater.SparkInternals

/**
 * Gives DELETE, UPDATE and MERGE a target against which Spark's own rules resolve columns, defaults and `*`. For a MERGE, the handler says
 * which columns the target will have, and so what `*` stands for.
 */
case class ResolveHeadwaterDml(session: SparkSession) extends Rule[LogicalPlan] {
  private lazy val names = new NamesOfMerge(session)

  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case delete @ DeleteFromTable(PendingTarget(table), _) => retyped(delete.copy(table = target(delete.table, table)))
    case update @ UpdateTable(PendingTarget(table), assignments, _) =>
      retyped(update.copy(table = target(update.table, table), assignments = AssignedValue.wrap(assignments)))
    case merge: MergeIntoTable if merge.sourceTable.resolved =>
      merge.targetTable match {
        case PendingTarget(table) => prepare(merge, table)
        case target => PendingView.find(target).map(throughView(merge, _)).getOrElse(merge)
      }
    case delete: DeleteFromTable if PendingView.find(delete.table).isDefined => delete.copy(table = PendingView.open(delete.table))
    case update: UpdateTable if PendingView.find(update.table).isDefined =>
      update.copy(table = PendingView.open(update.table), assignments = AssignedValue.wrap(update.assignments))
    case other => other
  }

  /** A view's columns are fixed, so nothing evolves. `*` stands for its columns. */
  private def throughView(merge: MergeIntoTable, view: PendingView): LogicalPlan = {
    val table = DmlTarget.unapply(view.columns.child).get._2
    if (merge.withSchemaEvolution) throw ViewRefusal("MERGE WITH SCHEMA EVOLUTION", view.view.mkString("."), "evolution")
    val answer = seenBy(merge, table, assigned = Nil)
    val computed = view.columns.projectList.filter(column =>
      PendingView.valueOf(column) match {
        case attribute: Attribute => answer.computed.contains(attribute.name.toLowerCase)
        case _ => false
      })
    val opened = merge.copy(targetTable = PendingView.open(merge.targetTable))
    names.check(opened)
    wrapped(expandStars(opened, computed.map(_.name.toLowerCase).toSet))
  }

  private def wrapped(merge: MergeIntoTable): MergeIntoTable = merge.copy(
    matchedActions = merge.matchedActions.map(AssignedValue.wrap),
    notMatchedActions = merge.notMatchedActions.map(AssignedValue.wrap),
    notMatchedBySourceActions = merge.notMatchedBySourceActions.map(AssignedValue.wrap))

  /** Attributes that Spark resolved against the table still have its NOT NULLs in their types; the target has none. */
  private def retyped(statement: UnaryCommand): LogicalPlan = {
    val columns = statement.child.output.map(column => column.exprId -> column).toMap
    statement.transformAllExpressionsWithSubqueries { case seen: AttributeReference =>
      columns.get(seen.exprId).filter(_.dataType != seen.dataType).map(_.withQualifier(seen.qualifier)).getOrElse(seen)
    }
  }

  private def target(plan: LogicalPlan, table: HeadwaterTable): LogicalPlan = {
    table.requireLatest()
    PendingTarget.replace(plan, table)
  }

  /** The target as the handler says that a MERGE sees it. */
  private def seenBy(merge: MergeIntoTable, table: HeadwaterTable, assigned: Seq[Seq[String]]): MergeTargetAnswer =
    Bridge.call(
      session,
      MergeTargetRequest(
        table = table.path,
        version = table.snapshotVersion,
        tableId = Some(table.info.tableId),
        withSchemaEvolution = merge.withSchemaEvolution,
        source = SparkInternals.rowSchema(merge.sourceTable.schema),
        star = actionsOf(merge).exists(a => a.isInstanceOf[UpdateStarAction] || a.isInstanceOf[InsertStarAction]),
        assigned = assigned),
      table.location)

  private def actionsOf(merge: MergeIntoTable): Seq[MergeAction] = merge.matchedActions ++ merge.notMatchedActions

  private def prepare(merge: MergeIntoTable, table: HeadwaterTable): LogicalPlan = {
    table.requireLatest()
    val assigned = new AssignedColumns(merge, SparkInternals.conf(session).resolver)
    val answer = seenBy(merge, table, actionsOf(merge).flatMap(AssignedColumns.of).flatMap(assigned.path))
    val seen = answer.target.map(new HeadwaterTable(session, table.path, table.asked, table.catalogTable, _, table.store)).getOrElse(table)
    // From here on, the statement evolves the table whichever way it was asked to.
    val named = if (answer.evolves) assigned.withoutSource(merge) else merge
    val prepared = named.copy(targetTable = PendingTarget.replace(merge.targetTable, seen), withSchemaEvolution = answer.evolves)
    names.check(prepared)
    wrapped(expandStars(prepared, answer.computed.toSet))
  }

  private def expandStars(merge: MergeIntoTable, computed: Set[String]): MergeIntoTable = {
    val resolver = SparkInternals.conf(session).resolver
    val (target, source) = (merge.targetTable.output, merge.sourceTable.output)
    def find(columns: Seq[Attribute], name: String): Option[Attribute] = columns.find(column => resolver(column.name, name))
    val assignments: Seq[Assignment] =
      if (merge.withSchemaEvolution) source.flatMap(value => find(target, value.name).map(Assignment(_, value)))
      else {
        val wanted = target.filter(key => find(source, key.name).isDefined || !computed(key.name.toLowerCase))
        merge.matchedActions.collectFirst { case _: UpdateStarAction => "UPDATE" }
          .orElse(merge.notMatchedActions.collectFirst { case _: InsertStarAction => "INSERT" })
          .foreach { action => wanted.find(key => find(source, key.name).isEmpty).foreach(names.refuseStar(action, _, source)) }
        wanted.flatMap(key => find(source, key.name).map(Assignment(key, _)))
      }
    merge.copy(
      matchedActions = merge.matchedActions.map {
        case UpdateStarAction(condition) if merge.withSchemaEvolution =>
          // A field that the source lacks keeps its value, as a column that it lacks does.
          val kept = assignments.map(assignment => assignment.copy(value = FieldsKept(assignment.value, assignment.key, resolver)))
          MergeShim.updateOfStar(condition, kept)
        case UpdateStarAction(condition) => MergeShim.updateOfStar(condition, assignments)
        case other => other
      },
      notMatchedActions = merge.notMatchedActions.map {
        case InsertStarAction(condition) => InsertAction(condition, assignments)
        case other => other
      })
  }
}
