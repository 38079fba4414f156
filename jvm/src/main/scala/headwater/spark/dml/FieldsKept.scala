package headwater.spark.dml

import org.apache.spark.sql.catalyst.analysis.Resolver
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * A value for a column of structs, which takes the fields that it lacks from the row. If such fields are kept, a null value makes the
 * other fields null; the result is null only if the row has a null as well. If none are kept, a null stays null. Arrays and maps are taken
 * unchanged.
 */
object FieldsKept {
  def apply(value: Expression, old: Expression, resolver: Resolver): Expression = (value.dataType, old.dataType) match {
    case (from: StructType, to: StructType) if lacks(from, to, resolver) =>
      val fields = to.fields.zipWithIndex.flatMap { case (field, position) =>
        val kept = GetStructField(old, position, Some(field.name))
        val found = from.fields.indexWhere(given => resolver(given.name, field.name))
        val taken = if (found < 0) kept else FieldsKept(GetStructField(value, found, Some(from(found).name)), kept, resolver)
        Seq(Literal(field.name), taken)
      }
      val struct = CreateNamedStruct(fields.toSeq)
      If(And(IsNull(value), IsNull(old)), Literal(null, struct.dataType), struct)
    case _ => value
  }

  private def lacks(from: DataType, to: DataType, resolver: Resolver): Boolean = (from, to) match {
    case (from: StructType, to: StructType) =>
      to.fields.exists(field =>
        from.fields.find(given => resolver(given.name, field.name)).forall(given => lacks(given.dataType, field.dataType, resolver)))
    case _ => false
  }
}
