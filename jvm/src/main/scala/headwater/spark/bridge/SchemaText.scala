package headwater.spark.bridge

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.sql.types.{DataType, Metadata, StructType}

/** Schemas as the handler sends them: Spark's JSON, with the metadata that the writers of a table have given its fields. */
object SchemaText {
  /** The schema without the entries of fields' metadata that Spark has no type for, such as an array of numbers and texts. */
  def read(text: String): StructType = Try(DataType.fromJson(text)).getOrElse(DataType.fromJson(readable(text))).asInstanceOf[StructType]

  private def readable(text: String): String = {
    val schema = Json.parse(text)
    schema.findParents("metadata").asScala.map(_.get("metadata")).foreach {
      case metadata: ObjectNode =>
        metadata.retain(metadata.fieldNames.asScala.filter(name => isReadable(name, metadata.get(name))).toSeq.asJava)
      case _ =>
    }
    Json.write(schema)
  }

  private def isReadable(name: String, value: JsonNode): Boolean = Try(Metadata.fromJson(Json.write(Map(name -> value)))).isSuccess
}
