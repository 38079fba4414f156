package headwater.spark.scan.files

import org.apache.parquet.schema.GroupType
import org.apache.spark.sql.types.{MetadataBuilder, StructType}

/** The ids that the columns of a Parquet file have, which Spark's converter leaves out. */
object FieldIds {
  /** As Spark itself names them. */
  val Key = "parquet.field.id"

  /** The columns of a file with their ids, those of structs too. What lies in arrays and maps stays as it is. */
  def added(schema: StructType, file: GroupType): StructType = StructType(schema.map { field =>
    if (!file.containsField(field.name)) field
    else {
      val stored = file.getType(field.name)
      val kind = field.dataType match {
        case struct: StructType if !stored.isPrimitive => added(struct, stored.asGroupType())
        case other => other
      }
      val metadata = Option(stored.getId).map(id =>
        new MetadataBuilder().withMetadata(field.metadata).putLong(Key, id.intValue.toLong).build())
      field.copy(dataType = kind, metadata = metadata.getOrElse(field.metadata))
    }
  })
}
