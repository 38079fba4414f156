package headwater.spark.catalog

import headwater.spark.bridge.messages
import headwater.spark.bridge.messages.{AnyTableChange, ColumnPosition, CommentColumn, UnsupportedChange}
import org.apache.spark.sql.connector.catalog.TableChange
import org.apache.spark.sql.connector.catalog.TableChange._
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** ALTER TABLE's changes as messages. */
object TableChangeMessage {
  def of(change: TableChange): AnyTableChange = change match {
    case c: SetProperty => messages.SetProperty(c.property, c.value)
    case c: RemoveProperty => messages.RemoveProperty(c.property)
    case c: AddColumn =>
      val stored = SparkInternals.storedTypes(new StructType().add(c.fieldNames.last, c.dataType)).head
      messages.AddColumn(
        path = c.fieldNames.toSeq,
        `type` = stored.dataType.json,
        nullable = c.isNullable,
        declaredType = SparkInternals.declaredType(stored),
        comment = Option(c.comment),
        position = Option(c.position).map(position),
        default = Option(c.defaultValue).map(_.getSql))
    case c: UpdateColumnComment => CommentColumn(c.fieldNames.toSeq, Option(c.newComment))
    case _: UpdateColumnType => UnsupportedChange("column_type")
    case _: UpdateColumnNullability => UnsupportedChange("column_nullability")
    case _: UpdateColumnDefaultValue => UnsupportedChange("column_default")
    case _: UpdateColumnPosition => UnsupportedChange("column_position")
    case _: RenameColumn => UnsupportedChange("rename_column")
    case _: DeleteColumn => UnsupportedChange("drop_column")
    case other => UnsupportedChange(other.getClass.getSimpleName.replaceAll("([a-z])([A-Z])", "$1_$2").toLowerCase)
  }

  private def position(asked: TableChange.ColumnPosition): ColumnPosition = asked match {
    case after: After => ColumnPosition(Some(after.column))
    case _ => ColumnPosition(None)
  }
}
