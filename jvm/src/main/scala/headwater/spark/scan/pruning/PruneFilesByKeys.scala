package headwater.spark.scan.pruning

import headwater.spark.scan.filters.PredicateTree
import headwater.spark.scan.tables.HeadwaterFileIndex
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight}
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, Inner, JoinType, LeftAnti, LeftOuter, LeftSemi, RightOuter}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.execution.{FileSourceScanExec, FilterExec, ProjectExec, ScalarSubquery, SortExec, SparkPlan}
import org.apache.spark.sql.execution.headwater.scan.BroadcastKeys
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat

/**
 * Dynamic file pruning: prunes a scan's files once more when the tasks that read them are about to start, by what the query has computed
 * until then. These are the keys of the broadcast side of a join that leaves out rows without a match, and the values of scalar
 * subqueries. Only adaptive execution runs this rule; it knows both by then.
 *
 * A row of the scan may be left out if each row of the result that comes from it would be left out by the join above.
 */
case class PruneFilesByKeys(session: SparkSession) extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = {
    val settings = DynamicPruningSettings.of(SparkInternals.conf(session))
    if (!settings.enabled || !plan.exists { case OurScan(_) => true; case _ => false }) plan
    else new Pruning(settings).prune(plan, Nil)
  }

  /** What rows must meet: `key`, over the output of a plan, is one of the values. */
  private case class Wanted(key: Expression, values: () => Option[Seq[Any]])

  private class Pruning(settings: DynamicPruningSettings) {
    def prune(plan: SparkPlan, wanted: Seq[Wanted]): SparkPlan = plan match {
      case OurScan(scan) => pruned(scan, wanted)
      case Project(list, child) =>
        val aliases = AttributeMap(list.collect { case a: Alias => a.toAttribute -> a.child })
        val below = wanted.map(w => w.copy(key = w.key.transform { case a: Attribute => aliases.getOrElse(a, a) }))
        plan.withNewChildren(Seq(prune(child, if (list.forall(_.deterministic)) below else Nil)))
      case FilterExec(condition, child) => plan.withNewChildren(Seq(prune(child, if (condition.deterministic) wanted else Nil)))
      case _: SortExec => plan.withNewChildren(Seq(prune(plan.children.head, wanted)))
      case Streamed(join) =>
        val (streamed, side) = join.buildSide match {
          case BuildLeft => (join.right, join.left)
          case BuildRight => (join.left, join.right)
        }
        val own = if (leavesOut(join.joinType)) keysOf(join, side) else Nil
        val through = wanted.filter(_.key.references.subsetOf(streamed.outputSet))
        val smaller = prune(streamed, through ++ own)
        if (smaller eq streamed) join
        else join.buildSide match {
          case BuildLeft => join.copy(right = smaller)
          case BuildRight => join.copy(left = smaller)
        }
      case other => other.mapChildren(prune(_, Nil))
    }

    private def keysOf(join: BroadcastHashJoinExec, side: SparkPlan): Seq[Wanted] = {
      val (streamedKeys, sideKeys) = join.buildSide match {
        case BuildLeft => (join.rightKeys, join.leftKeys)
        case BuildRight => (join.leftKeys, join.rightKeys)
      }
      streamedKeys.zipWithIndex.map { case (key, i) => Wanted(key, () => BroadcastKeys.of(side, sideKeys, i, settings.mostKeys)) }
    }

    private def leavesOut(kind: JoinType): Boolean = kind == Inner || kind == LeftSemi

    private def pruned(scan: FileSourceScanExec, wanted: Seq[Wanted]): SparkPlan = {
      val index = scan.relation.location.asInstanceOf[HeadwaterFileIndex]
      val subqueries = scan.dataFilters.filter(_.exists(_.isInstanceOf[ScalarSubquery]))
      if ((wanted.isEmpty && subqueries.isEmpty) || !index.mayList(settings.fewestFiles)) return scan
      val known = columns(scan)
      val ofKeys = wanted.filter(w => PredicateTree.isOperand(w.key) && w.key.references.subsetOf(known)).flatMap(conditions)
      val filters = ofKeys.flatten ++ subqueries.map(computed)
      if (filters.forall(PredicateTree.of(_) == PredicateTree.Nothing)) return scan
      val static = (scan.partitionFilters ++ scan.dataFilters).filter(PredicateTree.isOverRow)
      val partitions = index.partitionSchema.fieldNames
      val fewer = index.pruned(static ++ filters)
      copied(
        scan,
        "relation" -> fewer.in(scan.relation),
        "dataFilters" ->
          (scan.dataFilters ++ ofKeys.map(_.last).filterNot(_.references.exists(c => partitions.exists(_.equalsIgnoreCase(c.name))))))
    }

    /** The scan with other arguments. Its constructor has another number of them in each Spark. */
    private def copied(scan: FileSourceScanExec, others: (String, AnyRef)*): SparkPlan = {
      val changed = others.toMap
      val arguments = scan.productElementNames.zip(scan.productIterator).map { case (name, value) =>
        changed.getOrElse(name, value.asInstanceOf[AnyRef])
      }
      scan.makeCopy(arguments.toArray)
    }

    /** The columns of the table that the scan reads, without those of `_metadata`, which may have the same names. */
    private def columns(scan: FileSourceScanExec): AttributeSet = AttributeSet(scan.output.filter {
      case FileSourceMetadataAttribute(_) => false
      case _ => true
    })

    /** What prunes files; the last of it is short enough for Parquet's filters, and for the texts of plans. */
    private def conditions(wanted: Wanted): Option[Seq[Expression]] = wanted.values().map { values =>
      def literal(value: Any) = Literal(value, wanted.key.dataType)
      lazy val list = In(wanted.key, values.map(literal))
      if (values.isEmpty) Seq(Literal.FalseLiteral)
      else if (values.size <= Pruning.MostShown) Seq(list)
      else {
        val order = TypeUtils.getInterpretedOrdering(wanted.key.dataType)
        val (least, greatest) = (literal(values.min(order)), literal(values.max(order)))
        val range = And(GreaterThanOrEqual(wanted.key, least), LessThanOrEqual(wanted.key, greatest))
        if (values.size <= settings.mostListed) Seq(list, range) else Seq(range)
      }
    }

    /** A condition with the values of its scalar subqueries, which it waits for; the tasks of the scan would wait for them too. */
    private def computed(condition: Expression): Expression = condition.transform { case subquery: ScalarSubquery =>
      subquery.updateResult()
      subquery.toLiteral
    }
  }

  private object Pruning {
    /** Values that a scan shows, and gives to Parquet's filters, which take longer lists by their range too. */
    val MostShown = 10
  }

  private object Project {
    def unapply(plan: SparkPlan): Option[(Seq[NamedExpression], SparkPlan)] = plan match {
      case ProjectExec(list, child) => Some((list, child))
      case _ => None
    }
  }

  /** A join each of whose rows comes from one row of the side that is not broadcast. */
  private object Streamed {
    def unapply(plan: SparkPlan): Option[BroadcastHashJoinExec] = plan match {
      case join: BroadcastHashJoinExec => (join.joinType, join.buildSide) match {
          case (Inner, _) => Some(join)
          case (LeftOuter | LeftSemi | LeftAnti | ExistenceJoin(_), BuildRight) => Some(join)
          case (RightOuter, BuildLeft) => Some(join)
          case _ => None
        }
      case _ => None
    }
  }

  private object OurScan {
    def unapply(plan: SparkPlan): Option[FileSourceScanExec] = plan match {
      case scan: FileSourceScanExec => scan.relation.location match {
          // Under Spark's own class, a scan has the names of the files.
          case index: HeadwaterFileIndex if index.mayBePruned && scan.relation.fileFormat.isInstanceOf[HeadwaterParquetFileFormat] =>
            Some(scan)
          case _ => None
        }
      case _ => None
    }
  }
}
