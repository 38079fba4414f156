package headwater.spark.lineage

import java.util

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.messages.MadeCommit
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTable, CatalogTableType}
import org.apache.spark.sql.types._

/**
 * A written table as OpenLineage describes datasets: a map for its JSON, with facets by the names of its specification.
 *
 * @param listener the class loader that has the listener
 */
private final class Dataset(table: WrittenTable, listener: ClassLoader) {
  private val uri = new Path(table.location.path).toUri

  /** The listener itself names it, so that a table has one name whether it is read or written. */
  private val identifier: AnyRef = {
    val names = listener.loadClass("io.openlineage.spark.agent.util.PathUtils")
    table.name.fold(names.getMethod("fromURI", classOf[java.net.URI]).invoke(null, uri)) { name =>
      val storage = CatalogStorageFormat.empty.copy(locationUri = Some(uri))
      val entry = CatalogTable(name, CatalogTableType.EXTERNAL, storage, new StructType)
      names.getMethod("fromCatalogTable", classOf[CatalogTable], classOf[SparkSession]).invoke(null, entry, table.session)
    }
  }

  private def of(part: AnyRef, name: String): AnyRef = part.getClass.getMethod(s"get$name").invoke(part)

  def described: Map[String, Any] = {
    val namespace = of(identifier, "Namespace")
    val symlinks = of(identifier, "Symlinks").asInstanceOf[util.List[AnyRef]].asScala.toSeq.map { link =>
      Map("namespace" -> of(link, "Namespace"), "name" -> of(link, "Name"), "type" -> of(link, "Type").toString)
    }
    val facets = Map(
      "schema" -> facet("fields" -> table.schema.map(field)),
      "dataSource" -> facet("name" -> namespace, "uri" -> namespace),
      "storage" -> facet("storageLayer" -> "delta", "fileFormat" -> "parquet")) ++
      Option.when(symlinks.nonEmpty)("symlinks" -> facet("identifiers" -> symlinks)) ++
      table.commit.map(made => "version" -> facet("datasetVersion" -> made.version.toString)) ++
      table.commit.flatMap(_.change).map(change => "lifecycleStateChange" -> facet("lifecycleStateChange" -> change))
    Map(
      "namespace" -> namespace,
      "name" -> of(identifier, "Name"),
      "facets" -> facets,
      "outputFacets" -> table.commit.map(outputs).getOrElse(Map.empty))
  }

  private def outputs(made: MadeCommit): Map[String, Any] = {
    val counted = Seq("rowCount" -> made.rows, "size" -> made.size, "fileCount" -> made.files)
      .collect { case (name, Some(number)) => name -> number }
    Map("headwater_commit" -> facet("operation" -> made.operation, "version" -> made.version, "metrics" -> made.metrics)) ++
      Option.when(counted.nonEmpty)("outputStatistics" -> facet(counted: _*))
  }

  private def facet(members: (String, Any)*): Map[String, Any] = Map("_producer" -> Dataset.Producer) ++ members

  /** As the listener itself describes the columns of what is read. */
  private def field(field: StructField): Map[String, Any] = {
    val (name, inner) = field.dataType match {
      case StructType(fields) => ("struct", fields.toSeq)
      case MapType(key, value, _) => ("map", Seq(StructField("key", key), StructField("value", value)))
      case ArrayType(element, _) => ("array", Seq(StructField("_element", element)))
      case other => (other.typeName, Nil)
    }
    Map("name" -> field.name, "type" -> name) ++ field.getComment().map("description" -> _) ++
      Option.when(inner.nonEmpty)("fields" -> inner.map(this.field))
  }
}

private object Dataset {
  /** What a facet says of the program that made it: any URI. */
  val Producer = "urn:headwater"
}
