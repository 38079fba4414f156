package org.apache.spark.sql.headwater.scan

import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils
import org.apache.spark.sql.sources._
import org.apache.spark.sql.types._

/** Translates a table's column names into those in its files (protocol chapter "Column Mapping"). Changes nothing if the mode is `none`. */
class ColumnMapping(tableSchema: StructType, mode: String, nestedFilters: Boolean) {
  import ColumnMapping._

  /** The part of the schema that a reader requests, with the names (in mode `id`, the ids) of the files. */
  def physical(schema: StructType): StructType = if (mode == "none") schema else struct(schema, tableSchema)

  private def struct(asked: StructType, table: StructType): StructType = StructType(asked.map { field =>
    find(table, field.name).map { known =>
      val named = field.copy(name = known.metadata.getString(PhysicalName), dataType = nested(field.dataType, known.dataType))
      if (mode != "id") named
      else {
        val metadata =
          new MetadataBuilder().withMetadata(field.metadata).putLong(ParquetUtils.FIELD_ID_METADATA_KEY, known.metadata.getLong(Id))
        named.copy(metadata = metadata.build())
      }
    }.getOrElse(field)
  })

  private def nested(asked: DataType, table: DataType): DataType = (asked, table) match {
    case (a: StructType, t: StructType) => struct(a, t)
    case (a: ArrayType, t: ArrayType) => a.copy(elementType = nested(a.elementType, t.elementType))
    case (a: MapType, t: MapType) => a.copy(keyType = nested(a.keyType, t.keyType), valueType = nested(a.valueType, t.valueType))
    case _ => asked
  }

  /** A pushed-down filter over physical names; None if a name is not found, or if files are read by ids and it is one of a nested field. */
  def physical(filter: Filter): Option[Filter] = if (mode == "none") Some(filter) else rename(filter)

  /** The ids of columns of files, by their physical name. */
  def ids(physical: StructType): Map[String, Long] =
    physical.filter(_.metadata.contains(ParquetUtils.FIELD_ID_METADATA_KEY))
      .map(field => field.name -> field.metadata.getLong(ParquetUtils.FIELD_ID_METADATA_KEY)).toMap

  private def rename(filter: Filter): Option[Filter] = filter match {
    case And(l, r) => for (a <- rename(l); b <- rename(r)) yield And(a, b)
    case Or(l, r) => for (a <- rename(l); b <- rename(r)) yield Or(a, b)
    case Not(c) => rename(c).map(Not(_))
    case EqualTo(a, v) => column(a).map(EqualTo(_, v))
    case EqualNullSafe(a, v) => column(a).map(EqualNullSafe(_, v))
    case GreaterThan(a, v) => column(a).map(GreaterThan(_, v))
    case GreaterThanOrEqual(a, v) => column(a).map(GreaterThanOrEqual(_, v))
    case LessThan(a, v) => column(a).map(LessThan(_, v))
    case LessThanOrEqual(a, v) => column(a).map(LessThanOrEqual(_, v))
    case In(a, v) => column(a).map(In(_, v))
    case IsNull(a) => column(a).map(IsNull)
    case IsNotNull(a) => column(a).map(IsNotNull)
    case StringStartsWith(a, v) => column(a).map(StringStartsWith(_, v))
    case StringEndsWith(a, v) => column(a).map(StringEndsWith(_, v))
    case StringContains(a, v) => column(a).map(StringContains(_, v))
    case _ => None
  }

  private def column(name: String): Option[String] = {
    import org.apache.spark.sql.connector.catalog.CatalogV2Implicits._
    // Spark quotes names in filters only if it also pushes down filters on nested fields.
    val parts = if (nestedFilters) parseColumnPath(name) else Seq(name)
    follow(parts, tableSchema).filter(_.size == 1 || mode != "id").map(_.quoted)
  }

  private def follow(parts: Seq[String], schema: StructType): Option[Seq[String]] = find(schema, parts.head).flatMap { field =>
    val own = field.metadata.getString(PhysicalName)
    if (parts.tail.isEmpty) Some(Seq(own))
    else field.dataType match {
      case inner: StructType => follow(parts.tail, inner).map(own +: _)
      case _ => None
    }
  }

  private def find(schema: StructType, name: String): Option[StructField] =
    schema.find(_.name == name).orElse(schema.find(_.name.equalsIgnoreCase(name))).filter(_.metadata.contains(PhysicalName))
}

object ColumnMapping {
  private val PhysicalName = "delta.columnMapping.physicalName"
  private val Id = "delta.columnMapping.id"
}
