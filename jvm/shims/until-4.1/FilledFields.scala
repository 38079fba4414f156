package headwater.spark.shims

import org.apache.spark.sql.catalyst.analysis.Resolver
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StructType}

/** A value with null in the fields that structs in it lack, at any depth. These Sparks fill columns that are missing, and no fields. */
private[shims] object FilledFields {
  /** Whether a struct at any depth has no field that the wanted one has and that may be null. */
  def lacks(stored: DataType, wanted: DataType, resolver: Resolver): Boolean = (stored, wanted) match {
    case (have: StructType, want: StructType) => want.exists { field =>
        have.find(each => resolver(each.name, field.name)).fold(field.nullable)(each => lacks(each.dataType, field.dataType, resolver))
      }
    case (ArrayType(have, _), ArrayType(want, _)) => lacks(have, want, resolver)
    case (MapType(key, value, _), MapType(wantedKey, wantedValue, _)) => lacks(key, wantedKey, resolver) ||
      lacks(value, wantedValue, resolver)
    case _ => false
  }

  def apply(value: Expression, wanted: DataType, resolver: Resolver): Expression = (value.dataType, wanted) match {
    case _ if !lacks(value.dataType, wanted, resolver) => value
    case (have: StructType, want: StructType) =>
      val known = have.fields.zipWithIndex.toSeq.map { case (field, position) =>
        val part = GetStructField(value, position, Some(field.name))
        field.name -> want.find(each => resolver(each.name, field.name)).map(each => apply(part, each.dataType, resolver)).getOrElse(part)
      }
      val missing = want.filter(field => field.nullable && !have.exists(each => resolver(each.name, field.name)))
      val fields = known ++ missing.map(field => field.name -> Literal(null, field.dataType))
      val struct = CreateNamedStruct(fields.flatMap { case (name, part) => Seq(Literal(name), part) })
      if (value.nullable) If(IsNull(value), Literal(null, struct.dataType), struct) else struct
    case (ArrayType(have, mayBeNull), ArrayType(want, _)) =>
      val element = NamedLambdaVariable("element", have, mayBeNull)
      ArrayTransform(value, LambdaFunction(apply(element, want, resolver), Seq(element)))
    case (MapType(haveKey, haveValue, mayBeNull), MapType(wantKey, wantValue, _)) =>
      def lambda(body: (NamedLambdaVariable, NamedLambdaVariable) => Expression, valueType: DataType) = {
        val (k, v) = (NamedLambdaVariable("key", haveKey, nullable = false), NamedLambdaVariable("value", valueType, mayBeNull))
        LambdaFunction(body(k, v), Seq(k, v))
      }
      val values =
        if (lacks(haveValue, wantValue, resolver)) TransformValues(value, lambda((_, v) => apply(v, wantValue, resolver), haveValue))
        else value
      val valueType = values.dataType.asInstanceOf[MapType].valueType
      if (lacks(haveKey, wantKey, resolver)) TransformKeys(values, lambda((k, _) => apply(k, wantKey, resolver), valueType)) else values
    case _ => value
  }
}
