package headwater.spark.write

import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.expressions.{Attribute, EqualNullSafe, Expression, IsNull, Unevaluable}
import org.apache.spark.unsafe.types.UTF8String

/**
 * The condition of an overwrite that Spark makes of a static partition, `p <=> ''`, over the values that are stored: some texts are stored
 * as null, by the rule of `statements/files/stored_values.py`.
 */
object StoredPartitionValue {
  def in(condition: Expression, partitionColumns: Seq[String]): Expression = condition.transform {
    case EqualNullSafe(column: Attribute, value)
        if value.foldable && !value.exists(_.isInstanceOf[Unevaluable]) && partitionColumns.exists(_.equalsIgnoreCase(column.name)) &&
          isNull(value.eval()) => IsNull(column)
  }

  private def isNull(value: Any): Boolean = value match {
    case text: UTF8String => text.numBytes == 0 || text.toString == DEFAULT_PARTITION_NAME
    case bytes: Array[Byte] => isNull(UTF8String.fromBytes(bytes))
    case _ => false
  }
}
