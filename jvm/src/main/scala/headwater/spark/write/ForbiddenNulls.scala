package headwater.spark.write

import scala.util.Try

import headwater.spark.HeadwaterException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Cast}
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/**
 * Finds nulls where a schema allows none. Spark trusts the schema: its generated code reads other values in their place, and a Parquet file
 * written with such a row cannot be read at all.
 *
 * @param schema the first columns of the rows
 * @param place where the rows are, for the error
 */
final class ForbiddenNulls(schema: StructType, place: String) {
  import ForbiddenNulls._

  private val find = finder(schema)

  def check(row: InternalRow): Unit = find.flatMap(_(row)).foreach { path =>
    throw HeadwaterException(
      "HEADWATER_NULL_AGAINST_SCHEMA",
      "columnName" -> path.mkString("."),
      "place" -> place,
      "values" -> shown(row)).inRow
  }

  /** Looks at the rows only if some vector has a null where there must be none. */
  def check(batch: ColumnarBatch): Unit =
    if (schema.indices.exists(i => mayHave(batch.column(i), schema(i).dataType, schema(i).nullable)))
      batch.rowIterator().forEachRemaining(check(_))

  private def shown(row: InternalRow): String = schema.fields.take(MostShown).zipWithIndex.map { case (field, i) =>
    val value = Cast(BoundReference(i, relaxed(field.dataType), nullable = true), StringType, Some(SQLConf.get.sessionLocalTimeZone))
    val text = Try(value.eval(row)).fold(_ => "…", found => if (found == null) "null" else found.toString)
    s" - ${field.name} : ${if (text.length > LongestShown) text.take(LongestShown) + "…" else text}\n"
  }.mkString
}

object ForbiddenNulls {
  private val MostShown = 10
  private val LongestShown = 100

  /** The steps that lead to a null in a value; None without one. */
  private type Finder = Any => Option[List[String]]

  /** Whether a schema forbids null somewhere; see [[ForbiddenNulls]]. */
  def in(schema: StructType): Boolean = finder(schema).isDefined

  /** The type with nulls allowed everywhere but in keys. */
  def relaxed(kind: DataType): DataType = kind match {
    case struct: StructType => StructType(struct.map(field => field.copy(dataType = relaxed(field.dataType), nullable = true)))
    case array: ArrayType => ArrayType(relaxed(array.elementType), containsNull = true)
    case map: MapType => MapType(relaxed(map.keyType), relaxed(map.valueType), valueContainsNull = true)
    case _ => kind
  }

  /** None if there is nothing to look for. */
  private def finder(kind: DataType): Option[Finder] = kind match {
    case struct: StructType =>
      val parts = struct.fields.zipWithIndex.flatMap { case (field, i) =>
        val (inner, nullable) = (finder(field.dataType), field.nullable)
        if (nullable && inner.isEmpty) None else Some((field, i, nullable, inner))
      }
      if (parts.isEmpty) None
      else Some { value =>
        val row = value.asInstanceOf[InternalRow]
        parts.iterator.flatMap { case (field, i, nullable, inner) =>
          val found: Option[List[String]] =
            if (!row.isNullAt(i)) inner.flatMap(_(row.get(i, field.dataType))) else if (nullable) None else Some(Nil)
          found.map(field.name :: _)
        }.nextOption()
      }
    case array: ArrayType => elements(array.elementType, array.containsNull).map { find => value =>
        find(value).map("element" :: _)
      }
    case map: MapType =>
      val keys = elements(map.keyType, nullable = true)
      val values = elements(map.valueType, map.valueContainsNull)
      if (keys.isEmpty && values.isEmpty) None
      else Some { value =>
        val entries = value.asInstanceOf[MapData]
        keys.flatMap(_(entries.keyArray())).map("key" :: _)
          .orElse(values.flatMap(_(entries.valueArray())).map("value" :: _))
      }
    case _ => None
  }

  private def elements(kind: DataType, nullable: Boolean): Option[Finder] = {
    val inner = finder(kind)
    if (nullable && inner.isEmpty) None
    else Some { value =>
      val array = value.asInstanceOf[ArrayData]
      var found: Option[List[String]] = None
      var i = 0
      while (i < array.numElements() && found.isEmpty) {
        if (array.isNullAt(i)) { if (!nullable) found = Some(Nil) }
        else if (inner.isDefined) found = inner.get(array.get(i, kind))
        i += 1
      }
      found
    }
  }

  private def mayHave(vector: ColumnVector, kind: DataType): Boolean = kind match {
    case struct: StructType => struct.indices.exists(i => mayHave(vector.getChild(i), struct(i).dataType, struct(i).nullable))
    case array: ArrayType => mayHave(vector.getChild(0), array.elementType, array.containsNull)
    case map: MapType =>
      mayHave(vector.getChild(0), map.keyType, nullable = true) || mayHave(vector.getChild(1), map.valueType, map.valueContainsNull)
    case _ => false
  }

  private def mayHave(vector: ColumnVector, kind: DataType, nullable: Boolean): Boolean =
    !nullable && vector.hasNull || mayHave(vector, kind)
}
