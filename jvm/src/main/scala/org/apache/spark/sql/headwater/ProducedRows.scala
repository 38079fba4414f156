package org.apache.spark.sql.headwater

import scala.collection.mutable

import headwater.spark.scan.tables.HeadwaterFileIndex
import headwater.spark.write.OptimizedWrite
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.planning.{ExtractEquiJoinKeys, ExtractSingleColumnNullAwareAntiJoin}
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.execution.{LogicalRDD, SparkPlan}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.headwater.streaming.StreamBatch

/**
 * The most rows that a plan handles: the largest number that one of its nodes, or of its subqueries' nodes, produces. For a join, the pairs
 * that it compares count as well.
 *
 * It is a bound. Spark's statistics are estimates: they count an exploded array as one row, for example. What nothing bounds is infinite: a
 * node that is not listed here, such as a recursion or a table function, and an array that is not part of the query's text.
 */
object ProducedRows {
  /** The bound of an analyzed or optimized plan. */
  def of(plan: LogicalPlan): Double = new ProducedRows(StreamBatch.running).of(plan).most

  /** A plan's size in bytes: Spark's estimate, but not less than its rows take. */
  def bytes(plan: LogicalPlan): Long = plan.stats.sizeInBytes.min(Long.MaxValue).toLong.max((of(plan) * FewestBytes).toLong)

  /** Spark's statistics of a plan, with the bound as row count, for the rows that it has produced. */
  def statistics(plan: LogicalPlan): Statistics = {
    val most = of(plan)
    plan.stats.copy(rowCount = Option.when(most < Long.MaxValue.toDouble)(BigInt(most.toLong)))
  }

  /** The fewest bytes that a row of a file takes, if nobody has counted the rows. Runs of equal rows may take fewer. */
  private val FewestBytes = 4

  private val Unbounded = Double.PositiveInfinity
}

/** @param batch the plan of the micro-batch whose rows an RDD may have */
private final class ProducedRows(batch: LogicalRDD => Option[LogicalPlan]) {
  import ProducedRows.{FewestBytes, Unbounded}

  /** @param rows of the node itself */
  private case class Bound(rows: Double, most: Double)

  private val expressions = mutable.HashMap.empty[Long, Bound]

  private def of(plan: LogicalPlan): Bound = plan match {
    case common: WithCTE =>
      val most = common.cteDefs.map { definition =>
        val bound = of(definition.child)
        expressions(definition.id) = bound
        bound.most
      }
      val bound = of(common.plan)
      bound.copy(most = (most :+ bound.most).max)
    case _ =>
      val below = plan.children.map(of)
      val (rows, handled) = produced(plan, below.map(_.rows))
      Bound(rows, (below.map(_.most) ++ plan.subqueries.map(of(_).most) :+ handled).max)
  }

  /** How many rows a node has, and how many it handles for them. */
  private def produced(plan: LogicalPlan, below: Seq[Double]): (Double, Double) = plan match {
    case _ if hasState(plan) => (Unbounded, Unbounded)
    case join: Join => joined(join, below.head, below.last)
    case _ =>
      val rows = plan match {
        case leaf: LeafNode => ofLeaf(leaf)
        case _: Union => below.sum
        case expand: Expand => times(below.head, expand.projections.size)
        case generate: Generate => times(below.head, perRow(generate.generator).max(if (generate.outer) 1 else 0))
        case total: Aggregate if total.groupingExpressions.isEmpty => 1
        case GlobalLimit(IntegerLiteral(most), _) => below.head.min(most)
        case sample: Sample if sample.withReplacement => Unbounded
        case _: Project | _: Filter | _: Aggregate | _: Distinct | _: Deduplicate | _: Intersect | _: Except => below.head
        case _: Sort | _: LocalLimit | _: GlobalLimit | _: Offset | _: Tail | _: Sample | _: Window | _: WindowGroupLimit => below.head
        case _: RepartitionOperation | _: RebalancePartitions | _: OptimizedWrite | _: ResolvedHint | _: SubqueryAlias => below.head
        case _: View | _: Subquery | _: ReturnAnswer | _: CollectMetrics | _: EventTimeWatermark | _: BaseEvalPython => below.head
        case _: MapElements | _: SerializeFromObject | _: DeserializeToObject | _: AppendColumns | _: TypedFilter => below.head
        case _ => Unbounded
      }
      (rows, rows)
  }

  /** Whether a node of a stream's plan may have rows of earlier micro-batches. */
  private def hasState(plan: LogicalPlan): Boolean = plan.isStreaming &&
    (plan match {
      case _: Aggregate | _: Distinct | _: Deduplicate | _: Intersect | _: Except => true
      case join: Join => join.left.isStreaming && join.right.isStreaming
      case _ => false
    })

  private def joined(join: Join, left: Double, right: Double): (Double, Double) = {
    val (both, product) = (left + right, times(left, right))
    val (pairs, isLookup) = join match {
      case ExtractEquiJoinKeys(_, leftKeys, rightKeys, other, _, _, _, _) =>
        // A condition beside the keys may leave one match of the many that the keys have.
        val isOfTarget = other.isEmpty && (isTarget(join.left) || isTarget(join.right))
        val isUnmultiplied = isOfTarget || isUnique(join.left, leftKeys) || isUnique(join.right, rightKeys)
        (if (isUnmultiplied) both else product, other.isEmpty)
      case ExtractSingleColumnNullAwareAntiJoin(_, _) => (both, true)
      case _ => (product, false)
    }
    join.joinType match {
      case LeftSemi | LeftAnti | ExistenceJoin(_) => (left, if (isLookup) both else pairs)
      case _: InnerLike => (pairs, pairs)
      // Rows without a match come as well.
      case _ => (pairs.max(both), pairs.max(both))
    }
  }

  private def isUnique(side: LogicalPlan, keys: Seq[Expression]): Boolean = {
    val joined = ExpressionSet(keys)
    side.distinctKeys.exists(_.subsetOf(joined))
  }

  /** Whether it has the target of a MERGE, where several matches of a row are an error unless they delete it. */
  private def isTarget(side: LogicalPlan): Boolean = side.exists {
    case HeadwaterFileIndex.Of(index) => index.indexed.numbersFiles
    case _ => false
  }

  private def ofLeaf(leaf: LeafNode): Double = leaf match {
    case _: OneRowRelation => 1
    case range: Range => range.numElements.toDouble
    case local: LocalRelation => local.data.size
    case result: CommandResult => result.rows.size
    case reference: CTERelationRef => expressions.get(reference.cteId).fold(Unbounded)(_.rows)
    case cached: InMemoryRelation if !cached.cacheBuilder.isCachedColumnBuffersLoaded =>
      planned(cached.cachedPlan).fold(Unbounded)(of(_).most)
    case cached: InMemoryRelation => counted(cached).getOrElse(Unbounded)
    case HeadwaterFileIndex.Of(index) if index.rows.isDefined => index.rows.get.toDouble
    case rdd: LogicalRDD => counted(rdd).orElse(batch(rdd).map(new ProducedRows(_ => None).of(_).most)).getOrElse(Unbounded)
    case _ => (leaf.stats.sizeInBytes / FewestBytes).toDouble.max(1)
  }

  private def counted(leaf: LeafNode): Option[Double] = leaf.stats.rowCount.map(_.toDouble)

  /** The plan that Spark has made a physical plan of. What Spark puts around it, such as generated code, does not know it. */
  private def planned(plan: SparkPlan): Option[LogicalPlan] = plan match {
    case adaptive: AdaptiveSparkPlanExec => planned(adaptive.inputPlan)
    case _ => plan.logicalLink.orElse(if (plan.children.size == 1) planned(plan.children.head) else None)
  }

  /** How many rows a generator makes of one. */
  private def perRow(generator: Generator): Double = generator match {
    case GeneratorOuter(inner) => perRow(inner).max(1)
    case Stack(IntegerLiteral(rows) +: _) => rows
    case _: JsonTuple => 1
    case explode: ExplodeBase => elements(explode.child)
    case inline: Inline => elements(inline.child)
    case _ => Unbounded
  }

  private def elements(collection: Expression): Double = collection match {
    case Literal(array: ArrayData, _) => array.numElements()
    case Literal(map: MapData, _) => map.numElements()
    case Literal(null, _) => 0
    case _: CreateArray | _: CreateMap => collection.children.size
    case choice: CaseWhen => (choice.branches.map(_._2) ++ choice.elseValue).map(elements).max
    case If(_, one, other) => elements(one).max(elements(other))
    case _ => Unbounded
  }

  /** No rows times what nothing bounds are no rows. */
  private def times(a: Double, b: Double): Double = if (a == 0 || b == 0) 0 else a * b
}
