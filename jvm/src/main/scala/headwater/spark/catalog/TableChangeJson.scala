package headwater.spark.catalog

import org.apache.spark.sql.connector.catalog.TableChange
import org.apache.spark.sql.connector.catalog.TableChange._
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** The `TableChange`s of an ALTER TABLE as JSON for the handler. */
object TableChangeJson {
  def describe(change: TableChange): Map[String, Any] = change match {
    case c: SetProperty => Map("kind" -> "set_property", "key" -> c.property, "value" -> c.value)
    case c: RemoveProperty => Map("kind" -> "remove_property", "key" -> c.property)
    case c: AddColumn =>
      val stored = SparkInternals.storedTypes(new StructType().add(c.fieldNames.last, c.dataType)).head
      Map(
        "kind" -> "add_column",
        "path" -> c.fieldNames.toSeq,
        "type" -> stored.dataType.json,
        "declaredType" -> SparkInternals.declaredType(stored),
        "nullable" -> c.isNullable,
        "comment" -> Option(c.comment),
        "position" -> Option(c.position).map(describe),
        "default" -> Option(c.defaultValue).map(_.getSql))
    case c: UpdateColumnComment => Map("kind" -> "column_comment", "path" -> c.fieldNames.toSeq, "comment" -> c.newComment)
    case c: UpdateColumnType => Map("kind" -> "column_type", "path" -> c.fieldNames.toSeq, "type" -> c.newDataType.json)
    case c: UpdateColumnNullability => Map("kind" -> "column_nullability", "path" -> c.fieldNames.toSeq, "nullable" -> c.nullable)
    case c: UpdateColumnDefaultValue =>
      val default = Option(c.newCurrentDefault).map(_.getSql).getOrElse("")
      Map("kind" -> "column_default", "path" -> c.fieldNames.toSeq, "default" -> default)
    case c: UpdateColumnPosition => Map("kind" -> "column_position", "path" -> c.fieldNames.toSeq, "position" -> describe(c.position))
    case c: RenameColumn => Map("kind" -> "rename_column", "path" -> c.fieldNames.toSeq, "name" -> c.newName)
    case c: DeleteColumn => Map("kind" -> "drop_column", "path" -> c.fieldNames.toSeq)
    case other => Map("kind" -> other.getClass.getSimpleName.replaceAll("([a-z])([A-Z])", "$1_$2").toLowerCase)
  }

  private def describe(position: ColumnPosition): Map[String, Any] = position match {
    case after: After => Map("after" -> after.column)
    case _ => Map("first" -> true)
  }
}
