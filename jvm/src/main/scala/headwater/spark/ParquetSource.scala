package headwater.spark

import org.apache.hadoop.fs.FileStatus
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference, Cast, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, SubqueryAlias, View}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, InMemoryFileIndex, LogicalRelation}
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFileFormat, ParquetUtils}
import org.apache.spark.sql.types.{ByteType, DataType, IntegerType, LongType, ShortType}

/** A plan that does no more than read all rows of Parquet files, perhaps under other names. */
final class ParquetSource private (plan: LogicalPlan, relation: LogicalRelation, val files: Seq[FileStatus]) {
  // A column with a field id may be found by that, under any name.
  private val stored = relation.relation.asInstanceOf[HadoopFsRelation].dataSchema.filterNot(ParquetUtils.hasFieldId).map(_.name).toSet

  /** The column of the files that an expression over the plan's output is. */
  def column(expression: Expression): Option[String] = expression match {
    case reference: AttributeReference => ParquetSource.origin(plan, reference).collect { case a if stored(a.name) => a.name }
    case Cast(child, to, _, _) if ParquetSource.WholeNumbers(child.dataType) && Cast.canUpCast(child.dataType, to) => column(child)
    case _ => None
  }
}

object ParquetSource {
  private val WholeNumbers: Set[DataType] = Set(ByteType, ShortType, IntegerType, LongType)

  /** @param most so many files are looked at. */
  def of(plan: LogicalPlan, most: Int): Option[ParquetSource] = relation(plan).flatMap { found =>
    val files = found.relation.asInstanceOf[HadoopFsRelation]
    files.location match {
      // As Spark's reader lists them: with the partitions' directories taken apart, and what no reader wants left out.
      case index: InMemoryFileIndex if files.partitionSchema.isEmpty =>
        val listed = index.listFiles(Nil, Nil).flatMap(_.files.map(_.fileStatus))
        Option.when(listed.size <= most)(new ParquetSource(plan, found, listed))
      case _ => None
    }
  }

  private def relation(plan: LogicalPlan): Option[LogicalRelation] = plan match {
    // Of other Parquet formats, as the one of tables, it is not the files alone that tell the rows.
    case found @ LogicalRelation(files: HadoopFsRelation, _, _, _, _) if files.fileFormat.getClass == classOf[ParquetFileFormat] => Some(found)
    case Project(columns, child) if columns.forall(isRenamed) => relation(child)
    case _: SubqueryAlias | _: View => relation(plan.children.head)
    case _ => None
  }

  private def isRenamed(expression: Expression): Boolean = expression match {
    case _: Attribute | Alias(_: Attribute, _) => true
    case _ => false
  }

  /** The column of the relation that one of the plan's columns is. */
  private def origin(plan: LogicalPlan, column: AttributeReference): Option[AttributeReference] = plan match {
    case relation: LogicalRelation => relation.output.find(_.exprId == column.exprId)
    case Project(columns, child) => columns.find(_.exprId == column.exprId).flatMap {
      case same: AttributeReference => origin(child, same)
      case Alias(other: AttributeReference, _) => origin(child, other)
      case _ => None
    }
    case other => other.children.headOption.flatMap(origin(_, column))
  }
}
