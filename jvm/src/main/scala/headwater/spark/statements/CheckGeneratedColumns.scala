package headwater.spark.statements

import scala.util.Try

import headwater.spark.HeadwaterException
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{ColumnDefinition, CreateTable, LogicalPlan, ReplaceTable}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.headwater.bridge.QueryCompiler
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * Plans nothing. Spark checks the generated columns of a new table while it plans the statement, where an expression that is nested too
 * deeply overflows its stack; here, the error names the expression. Spark finds all other faults itself.
 */
final case class CheckGeneratedColumns(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    plan match {
      case created: CreateTable => check(created.columns)
      case replaced: ReplaceTable => check(replaced.columns)
      case _ =>
    }
    Nil
  }

  private def check(columns: Seq[ColumnDefinition]): Unit = {
    val schema = StructType(columns.map(column => StructField(column.name, column.dataType)))
    columns.flatMap(_.generationExpression: Option[Any]).flatMap(text).foreach { text =>
      QueryCompiler.unlessTooDeep(text)(Try(QueryCompiler.expressionType(session, text, schema))).failed.foreach {
        case tooDeep: HeadwaterException => throw tooDeep
        case _ =>
      }
    }
  }

  private def text(generation: Any): Option[String] = generation match {
    case text: String => Some(text)
    // Since Spark 4.3, it is an expression with its text beside it.
    case expression: Product => expression.productIterator.collectFirst { case text: String => text }
    case _ => None
  }
}
