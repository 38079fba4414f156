package headwater.spark.write

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapreduce.Job
import org.apache.parquet.hadoop.ParquetOutputFormat
import org.apache.parquet.hadoop.api.WriteSupport.WriteContext
import org.apache.parquet.schema.{GroupType, MessageType, Type}
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, Metadata, StructField, StructType}

/**
 * Spark's Parquet writer with field ids for the elements of arrays and the keys and values of maps, which Spark gives to struct fields
 * only. The nearest struct field's metadata has them under [[NestedFieldIds.Key]], by path: `items.element`, `items.element.value`.
 */
final class NestedFieldIds extends ParquetWriteSupport {
  override def init(configuration: Configuration): WriteContext = {
    val plain = super.init(configuration)
    val schema = DataType.fromJson(configuration.get(ParquetWriteSupport.SPARK_ROW_SCHEMA)).asInstanceOf[StructType]
    new WriteContext(
      new MessageType(plain.getSchema.getName, NestedFieldIds.fields(plain.getSchema, schema).asJava),
      plain.getExtraMetaData)
  }
}

object NestedFieldIds {
  private val Key = "parquet.field.nested.ids"

  /** Makes a job write the ids, if its schema has any; then arrays and maps have three levels, whatever Spark's settings say. */
  def use(job: Job, schema: StructType): Unit = if (schema.json.contains(Key)) {
    job.getConfiguration.setBoolean(SQLConf.PARQUET_WRITE_LEGACY_FORMAT.key, false)
    ParquetOutputFormat.setWriteSupportClass(job, classOf[NestedFieldIds])
  }

  private def fields(group: GroupType, struct: StructType): Seq[Type] = group.getFields.asScala.toSeq.map { inFile =>
    struct.find(_.name == inFile.getName).map(field).fold(inFile)(_(inFile))
  }

  private def field(field: StructField): Type => Type = {
    val ids = if (field.metadata.contains(Key)) field.metadata.getMetadata(Key) else Metadata.empty
    within(_, field.dataType, ids, field.name)
  }

  private def within(inFile: Type, kind: DataType, ids: Metadata, path: String): Type = {
    /** The repeated group of an array or map, with ids for what it holds. */
    def repeated(parts: (String, DataType)*): Type = {
      val outer = inFile.asGroupType
      val inner = outer.getType(0).asGroupType
      val numbered = inner.getFields.asScala.toSeq.zip(parts).map { case (part, (step, partKind)) =>
        val at = s"$path.$step"
        val deeper = within(part, partKind, ids, at)
        if (ids.contains(at)) deeper.withId(ids.getLong(at).toInt) else deeper
      }
      outer.withNewFields(inner.withNewFields(numbered: _*))
    }
    kind match {
      case array: ArrayType => repeated("element" -> array.elementType)
      case map: MapType => repeated("key" -> map.keyType, "value" -> map.valueType)
      case struct: StructType => inFile.asGroupType.withNewFields(fields(inFile.asGroupType, struct): _*)
      case _ => inFile
    }
  }
}
