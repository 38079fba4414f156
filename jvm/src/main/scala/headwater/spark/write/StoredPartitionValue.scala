package headwater.spark.write

import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.expressions.{Attribute, Cast, EqualNullSafe, Expression, IsNull, Literal}
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.types.{BinaryType, CharType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * The condition `p <=> ''` that Spark makes of a static partition, as a condition on the stored values: some texts are stored as null, by
 * the rule of `statements/files/stored_values.py`.
 */
object StoredPartitionValue {
  def in(condition: Expression, partitionColumns: Seq[String]): Expression = condition.transform {
    case EqualNullSafe(column: Attribute, value)
        if isText(column) && partitionColumns.exists(_.equalsIgnoreCase(column.name)) &&
          isNull(value) => IsNull(column)
  }

  private def isText(column: Attribute): Boolean = column.dataType match {
    // Blanks make a CHAR as long as it is declared: it is never empty.
    case _: StringType => CharVarcharUtils.getRawType(column.metadata).forall(!_.isInstanceOf[CharType])
    case BinaryType => true
    case _ => false
  }

  /** Whether a literal, as it is or cast to the column's type, is stored as null. */
  private def isNull(value: Expression): Boolean = value match {
    case cast: Cast => isNull(cast.child)
    case Literal(text: UTF8String, _) => text.numBytes == 0 || text.toString == DEFAULT_PARTITION_NAME
    case Literal(bytes: Array[Byte], _) => isNull(Literal.create(UTF8String.fromBytes(bytes), StringType))
    case _ => false
  }
}
