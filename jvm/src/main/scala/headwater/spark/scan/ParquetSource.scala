package headwater.spark.scan

import org.apache.hadoop.fs.FileStatus
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference, Cast, Expression, ExprId}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, SubqueryAlias, View}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, InMemoryFileIndex, LogicalRelation}
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFileFormat, ParquetUtils}
import org.apache.spark.sql.types.{ByteType, DataType, IntegerType, LongType, ShortType}

/** A plan that does no more than read all rows of Parquet files, perhaps under other names; `columns` are the files' of the plan's output. */
final class ParquetSource private (val files: Seq[FileStatus], columns: Map[ExprId, String]) {
  /** The column of the files that an expression over the plan's output is. */
  def column(expression: Expression): Option[String] = expression match {
    case reference: AttributeReference => columns.get(reference.exprId)
    case Cast(child, to, _, _) if ParquetSource.WholeNumbers(child.dataType) && Cast.canUpCast(child.dataType, to) => column(child)
    case _ => None
  }
}

object ParquetSource {
  private val WholeNumbers: Set[DataType] = Set(ByteType, ShortType, IntegerType, LongType)

  /** @param most so many files are looked at. */
  def of(plan: LogicalPlan, most: Int): Option[ParquetSource] = plan match {
    // Of other Parquet formats, as the one of tables, it is not the files alone that tell the rows.
    case LogicalRelation(relation: HadoopFsRelation, output, _, _, _) if relation.fileFormat.getClass == classOf[ParquetFileFormat] =>
      listed(relation).filter(_.size <= most).map { files =>
        // A column with a field id may be found by that, under any name.
        val stored = relation.dataSchema.filterNot(ParquetUtils.hasFieldId).map(_.name).toSet
        new ParquetSource(files, output.collect { case column if stored(column.name) => column.exprId -> column.name }.toMap)
      }
    case Project(columns, child) =>
      val renamed = columns.collect {
        case same: Attribute => same.exprId -> same
        case alias @ Alias(column: Attribute, _) => alias.exprId -> column
      }
      if (renamed.size < columns.size) None
      else of(child, most).map { source =>
        new ParquetSource(source.files, renamed.flatMap { case (id, column) => source.column(column).map(id -> _) }.toMap)
      }
    case _: SubqueryAlias | _: View => of(plan.children.head, most)
    case _ => None
  }

  /** The files as Spark's reader lists them: with the partitions' directories taken apart, and what no reader wants left out. */
  private def listed(relation: HadoopFsRelation): Option[Seq[FileStatus]] = relation.location match {
    case index: InMemoryFileIndex if relation.partitionSchema.isEmpty => Some(index.listFiles(Nil, Nil).flatMap(_.files.map(_.fileStatus)))
    case _ => None
  }
}
