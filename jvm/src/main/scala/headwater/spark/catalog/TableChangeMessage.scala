package headwater.spark.catalog

import headwater.spark.bridge.messages
import headwater.spark.bridge.messages.{DefinitionChange, ChangeColumnDefault, ChangeColumnNullability, ChangeColumnType, ColumnPosition}
import headwater.spark.bridge.messages.{CommentColumn, DropColumn, MoveColumn, UnsupportedChange}
import headwater.spark.shims.ChangeShim
import org.apache.spark.sql.connector.catalog.TableChange
import org.apache.spark.sql.connector.catalog.TableChange._
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** ALTER TABLE's changes as messages. */
object TableChangeMessage {
  def of(change: TableChange): DefinitionChange = change match {
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
    case c: UpdateColumnType =>
      val stored = SparkInternals.storedTypes(new StructType().add(c.fieldNames.last, c.newDataType)).head
      ChangeColumnType(c.fieldNames.toSeq, stored.dataType.json, SparkInternals.declaredType(stored))
    case c: UpdateColumnNullability => ChangeColumnNullability(c.fieldNames.toSeq, c.nullable)
    case c: UpdateColumnDefaultValue => ChangeColumnDefault(c.fieldNames.toSeq, ChangeShim.newDefault(c))
    case c: UpdateColumnPosition => MoveColumn(c.fieldNames.toSeq, position(c.position))
    case c: RenameColumn => messages.RenameColumn(c.fieldNames.toSeq, c.newName)
    case c: DeleteColumn => DropColumn(c.fieldNames.toSeq, c.ifExists)
    case c: ClusterBy => messages.ClusterBy(c.clusteringColumns.map(_.fieldNames.toSeq).toSeq)
    case other => ChangeShim.constraint(other)
        .getOrElse(UnsupportedChange(other.getClass.getSimpleName.replaceAll("([a-z])([A-Z])", "$1_$2").toLowerCase))
  }

  private def position(asked: TableChange.ColumnPosition): ColumnPosition = asked match {
    case after: After => ColumnPosition(Some(after.column))
    case _ => ColumnPosition(None)
  }
}
