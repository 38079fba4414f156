package headwater.spark.scan.pruning

import headwater.spark.scan.filters.PredicateTree
import headwater.spark.scan.tables.HeadwaterFileIndex
import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.{AggregateAnswer, AggregateOutput, AggregateRequest}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Count, Max, Min}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, LocalLimit, LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/**
 * Answers an aggregate over a whole table, or by its partition columns, from the log without a scan. The handler decides whether the log is
 * exact enough, and returns the rows. Whether there are rows at all is such a question too: EXISTS asks for a constant under a LIMIT.
 */
case class AggregateFromLog(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transform {
    case aggregate @ Aggregate(groups, outputs, Source(index, filters), _) if groups.forall(_.isInstanceOf[AttributeReference]) =>
      val wanted = outputs.map(describe(_, groups))
      if (wanted.forall(_.isDefined)) answer(aggregate, index, filters, groups, wanted.flatten) else aggregate
    case limit @ LocalLimit(IntegerLiteral(rows), Project(Constants(values), Source(index, filters))) if rows <= MostConstants =>
      val count = AggregateOutput(kind = Some("count"))
      val known = ask(index, filters, Nil, Seq(count)).flatMap(_.rows.headOption).flatMap(_.head).map(_.toLong)
      known.map(found => LocalRelation(limit.output, Seq.fill(found.min(rows.toLong).toInt)(InternalRow.fromSeq(values)))).getOrElse(limit)
  }

  private def describe(output: NamedExpression, groups: Seq[Expression]): Option[AggregateOutput] = output match {
    case a: AttributeReference if groups.exists(_.semanticEquals(a)) => Some(AggregateOutput(group = Some(a.name)))
    case Alias(a: AttributeReference, _) if groups.exists(_.semanticEquals(a)) => Some(AggregateOutput(group = Some(a.name)))
    case Alias(AggregateExpression(function, _, false, None, _), _) => function match {
        case Count(Seq(Literal(value, _))) if value != null => Some(AggregateOutput(kind = Some("count")))
        case Count(Seq(a: AttributeReference)) => Some(AggregateOutput(kind = Some("count"), column = Some(a.name)))
        case Min(a: AttributeReference) => Some(AggregateOutput(kind = Some("min"), column = Some(a.name)))
        case Max(a: AttributeReference) => Some(AggregateOutput(kind = Some("max"), column = Some(a.name)))
        case _ => None
      }
    case _ => None
  }

  private def answer(
      aggregate: Aggregate,
      index: HeadwaterFileIndex,
      filters: Seq[Expression],
      groups: Seq[Expression],
      wanted: Seq[AggregateOutput]): LogicalPlan = {
    val names = groups.map(_.asInstanceOf[AttributeReference].name)
    ask(index, filters, names, wanted).map { answer =>
      val zone = Some(SparkInternals.conf(session).sessionLocalTimeZone)
      LocalRelation(
        aggregate.output,
        answer.rows.map { row =>
          InternalRow.fromSeq(aggregate.output.zip(row).map { case (column, text) =>
            text.map(t => Cast(Literal(UTF8String.fromString(t), StringType), column.dataType, zone, EvalMode.LEGACY).eval()).orNull
          })
        })
    }.getOrElse(aggregate)
  }

  private def ask(
      index: HeadwaterFileIndex,
      filters: Seq[Expression],
      groups: Seq[String],
      wanted: Seq[AggregateOutput]): Option[AggregateAnswer] =
    if (!filters.forall(PredicateTree.isOverRow)) None
    else
      Bridge.call(
        index.session,
        AggregateRequest(index.path, index.state.version, Some(index.state.tableId), groups, wanted, filters.map(PredicateTree.of)),
        index.tableLocation)

  /** More rows of constants than this, which no EXISTS asks for, are left to a scan. */
  private val MostConstants = 1000

  /** Columns each of which has one value in all rows. */
  private object Constants {
    def unapply(columns: Seq[NamedExpression]): Option[Seq[Any]] = {
      val values = columns.collect { case Alias(Literal(value, _), _) => value }
      Option.when(values.size == columns.size)(values)
    }
  }

  /** A pinned table under nothing but projections of columns and filters on partition columns. */
  private object Source {
    def unapply(plan: LogicalPlan): Option[(HeadwaterFileIndex, Seq[Expression])] = plan match {
      case Project(columns, child) if columns.forall(_.isInstanceOf[AttributeReference]) => unapply(child)
      case Filter(condition, child) => unapply(child).collect {
          case (index, filters) if onPartitions(condition, index) => (index, condition +: filters)
        }
      case LogicalRelation(HadoopFsRelation(index: HeadwaterFileIndex, _, _, _, _, _), _, _, false, _)
          if !index.live && index.isWholeTable => Some((index, Nil))
      case _ => None
    }

    private def onPartitions(condition: Expression, index: HeadwaterFileIndex): Boolean =
      condition.deterministic && condition.references.forall(a => index.partitionSchema.fieldNames.exists(_.equalsIgnoreCase(a.name)))
  }
}
