package headwater.spark.scan.pruning

import headwater.spark.scan.filters.PredicateTree
import headwater.spark.scan.tables.{FilesWanted, HeadwaterFileIndex}
import headwater.spark.bridge.messages.{ScanOrder, ScanStatistics}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogColumnStat, CatalogStatistics, CatalogStorageFormat, CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.expressions.{
  And, AttributeReference, AttributeSet, Descending, Expression, IntegerLiteral, NullsFirst, SortOrder
}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalLimit, LogicalPlan, Project, Sort}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.scan.{AcceleratedScans, HeadwaterParquetFileFormat}

/**
 * Prunes the files of a pinned table while Spark optimizes the query, so that joins are planned for the size of what is read. If Spark
 * estimates rows too (`spark.sql.cbo.enabled`, `spark.sql.cbo.planStats.enabled`), the relation gets row count and column statistics of
 * those files. The scan then reads the files that were found here.
 *
 * Under a LIMIT, it lists the files that hold enough rows; if they are sorted, the files that may hold the first rows.
 */
case class PruneFiles(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val estimatesRows = conf.cboEnabled || conf.planStatsEnabled
    lazy val used = AttributeSet(plan.collect { case node => node.references.toSeq }.flatten)
    def columns(relation: LogicalRelation) = Option.when(estimatesRows)(relation.output.filter(used.contains).map(_.name))
    var wanted = Seq.empty[FilesWanted]
    def want(relation: LogicalRelation, files: HadoopFsRelation, needs: FilesWanted): LogicalRelation = {
      wanted :+= needs
      relation.copy(relation = files.copy(location = needs)(files.sparkSession))
    }
    val asking = plan.transform {
      case limit @ LocalLimit(IntegerLiteral(rows), FirstRows(relation, files, index, filters, order)) =>
        val fewer = want(relation, files, new FilesWanted(index, filters, columns(relation), Some(rows), order))
        limit.withNewChildren(Seq(limit.child.transform { case same: LogicalRelation if same eq relation => fewer }))
      case filter @ Filter(condition, Prunable(relation, files, index)) =>
        filter.copy(child = want(relation, files, new FilesWanted(index, conjuncts(condition, relation), columns(relation))))
      case Prunable(relation, files, index) if estimatesRows || needsList(index) =>
        want(relation, files, new FilesWanted(index, Nil, columns(relation)))
    }
    if (wanted.isEmpty) plan
    else {
      val found = wanted.zip(HeadwaterFileIndex.pruned(wanted)).toMap
      asking.transform { case relation @ LogicalRelation(files @ HadoopFsRelation(needs: FilesWanted, _, _, _, _, _), _, _, _, _) =>
        val (location, statistics) = found(needs)
        pruned(relation, files, location, statistics)
      }
    }
  }

  /** Whether the scan is planned by its list of files, as some of them have deletion vectors. */
  private def needsList(index: HeadwaterFileIndex): Boolean = index.state.hasDeletionVectors && AcceleratedScans.isAccelerated(session)

  private def conjuncts(condition: Expression, relation: LogicalRelation): Seq[Expression] = {
    def split(e: Expression): Seq[Expression] = e match {
      case And(left, right) => split(left) ++ split(right)
      case other => Seq(other)
    }
    SparkInternals.normalized(split(condition).filter(PredicateTree.isOverRow), relation)
  }

  private def pruned(
      relation: LogicalRelation,
      files: HadoopFsRelation,
      location: HeadwaterFileIndex,
      statistics: Option[ScanStatistics]): LogicalRelation = {
    val smaller = relation.copy(relation = location.in(files))
    statistics.map { known =>
      val entry = relation.catalogTable.getOrElse(CatalogTable(
        TableIdentifier(location.path, Some("delta")),
        CatalogTableType.EXTERNAL,
        CatalogStorageFormat.empty,
        files.schema,
        provider = Some("delta")))
      smaller.copy(catalogTable = Some(entry.copy(stats = Some(estimates(location, known)))))
    }.getOrElse(smaller)
  }

  private def estimates(index: HeadwaterFileIndex, known: ScanStatistics): CatalogStatistics = {
    val columns = known.columns.map { column =>
      val stored = index.indexed.analyzed.getOrElse(column.name, CatalogColumnStat())
      column.name -> stored.copy(
        distinctCount = stored.distinctCount.map(_.min(known.rows)),
        min = column.min,
        max = column.max,
        nullCount = column.nulls.map(BigInt(_)),
        version = CatalogColumnStat.VERSION)
    }
    CatalogStatistics(index.sizeInBytes, Some(BigInt(known.rows)), columns.toMap)
  }

  /** The rows of a pinned table that a LIMIT takes the first of: under filters, perhaps sorted. */
  private object FirstRows {
    type Found = (LogicalRelation, HadoopFsRelation, HeadwaterFileIndex, Seq[Expression], Option[ScanOrder])

    def unapply(plan: LogicalPlan): Option[Found] = find(plan, Nil, None)

    private def find(plan: LogicalPlan, conditions: Seq[Expression], sorted: Option[SortOrder]): Option[Found] = plan match {
      case Project(columns, child) if columns.forall(_.deterministic) => find(child, conditions, sorted)
      case Filter(condition, child) if PredicateTree.isOverRow(condition) => find(child, condition +: conditions, sorted)
      case sort: Sort if sort.global && sorted.isEmpty && conditions.isEmpty && sort.order.nonEmpty =>
        find(sort.child, Nil, sort.order.headOption)
      case Prunable(relation, files, index) =>
        val order = sorted.map {
          case SortOrder(column: AttributeReference, direction, nulls, _) if relation.outputSet.contains(column) =>
            Some(ScanOrder(column.name, direction == Descending, nulls == NullsFirst))
          case _ => None
        }
        Option.unless(order.contains(None))((relation, files, index, conditions.flatMap(conjuncts(_, relation)), order.flatten))
      case _ => None
    }
  }

  private object Prunable {
    def unapply(plan: LogicalPlan): Option[(LogicalRelation, HadoopFsRelation, HeadwaterFileIndex)] = plan match {
      case relation @ LogicalRelation(
            files @ HadoopFsRelation(index: HeadwaterFileIndex, _, _, _, _: HeadwaterParquetFileFormat, _),
            _,
            _,
            false,
            _)
          if !index.live && index.isWholeTable => Some((relation, files, index))
      case _ => None
    }
  }
}
