package org.apache.spark.sql.headwater.write

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.QueryExecution
import org.apache.spark.sql.types.{DataType, NullType, StructType}

/** Rows whose structs lack the fields of type VOID, which no data file holds. A table with VOID inside an array or map has no new files. */
object WithoutVoidFields {
  def apply(session: SparkSession, execution: QueryExecution): QueryExecution = {
    val rows = execution.analyzed
    if (!rows.output.exists(column => hasVoid(column.dataType))) execution
    else {
      val columns = rows.output.map(column => if (hasVoid(column.dataType)) Alias(without(column), column.name)() else column)
      Dataset.ofRows(session, Project(columns, rows)).queryExecution
    }
  }

  private def hasVoid(kind: DataType): Boolean = kind match {
    case struct: StructType => struct.fields.exists(field => field.dataType == NullType || hasVoid(field.dataType))
    case _ => false
  }

  private def without(value: Expression): Expression = value.dataType match {
    case struct: StructType if hasVoid(struct) =>
      val fields = struct.fields.zipWithIndex.toSeq.filter(_._1.dataType != NullType).flatMap { case (field, position) =>
        Seq(Literal(field.name), without(GetStructField(value, position, Some(field.name))))
      }
      val kept = CreateNamedStruct(fields)
      If(IsNull(value), Literal(null, kept.dataType), kept)
    case _ => value
  }
}
