package headwater.spark.scan.late

import headwater.spark.bridge.{StoreOptions, TableLocation}
import org.apache.hadoop.fs.FileStatus
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference, Cast, Expression, ExprId}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, SubqueryAlias, View}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, InMemoryFileIndex, LogicalRelation}
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFileFormat, ParquetUtils}
import org.apache.spark.sql.types.{ByteType, DataType, IntegerType, LongType, ShortType}

/**
 * A plan that only reads all rows of Parquet files, perhaps under other column names: the statistics in the files' footers hold for its
 * rows.
 *
 * @param columns the files' column for each attribute of the plan's output
 */
final class ParquetSource private (val files: Seq[FileStatus], columns: Map[ExprId, String], private val relation: HadoopFsRelation) {
  /** Where the files lie, with what was given to reach them. */
  def locations(session: SparkSession): Seq[TableLocation] =
    relation.location.rootPaths.map(root => TableLocation(root.toString, StoreOptions.of(session, root, relation.options)))

  /** The files' column that an expression over the plan's output stands for. */
  def column(expression: Expression): Option[String] = expression match {
    case reference: AttributeReference => columns.get(reference.exprId)
    case Cast(child, to, _, _) if ParquetSource.WholeNumbers(child.dataType) && Cast.canUpCast(child.dataType, to) => column(child)
    case _ => None
  }
}

object ParquetSource {
  private val WholeNumbers: Set[DataType] = Set(ByteType, ShortType, IntegerType, LongType)

  /** @param most the most files such a plan may have */
  def of(plan: LogicalPlan, most: Int): Option[ParquetSource] = plan match {
    // In other Parquet formats, as in Delta tables, the files alone do not determine the rows.
    case LogicalRelation(relation: HadoopFsRelation, output, _, _, _) if relation.fileFormat.getClass == classOf[ParquetFileFormat] =>
      listed(relation).filter(_.size <= most).map { files =>
        // Spark may find a column with a field id by that id, under any name.
        val stored = relation.dataSchema.filterNot(ParquetUtils.hasFieldId).map(_.name).toSet
        new ParquetSource(files, output.collect { case column if stored(column.name) => column.exprId -> column.name }.toMap, relation)
      }
    case Project(columns, child) =>
      val renamed = columns.collect {
        case same: Attribute => same.exprId -> same
        case alias @ Alias(column: Attribute, _) => alias.exprId -> column
      }
      if (renamed.size < columns.size) None
      else of(child, most).map { source =>
        new ParquetSource(source.files, renamed.flatMap { case (id, column) => source.column(column).map(id -> _) }.toMap, source.relation)
      }
    case _: SubqueryAlias | _: View => of(plan.children.head, most)
    case _ => None
  }

  /** The files as Spark's reader lists them; none for a partitioned source. */
  private def listed(relation: HadoopFsRelation): Option[Seq[FileStatus]] = relation.location match {
    case index: InMemoryFileIndex if relation.partitionSchema.isEmpty => Some(index.listFiles(Nil, Nil).flatMap(_.files.map(_.fileStatus)))
    case _ => None
  }
}
