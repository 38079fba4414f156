package headwater.spark.statements

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.HeadwaterCatalog
import headwater.spark.bridge.Json
import headwater.spark.catalog.ClonedSource
import headwater.spark.shims.NewTable
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.connector.catalog.{Identifier, TableCatalog}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** Makes a table that is a clone of another, and returns the row of its answer; none where IF NOT EXISTS finds a table. */
case class CloneCommand(
    catalog: HeadwaterCatalog,
    target: Identifier,
    source: ClonedSource,
    creates: HeadwaterClone.NewTable,
    arguments: JsonNode,
    rows: StructType)
    extends LeafRunnableCommand {
  override val output: Seq[Attribute] = SparkInternals.attributes(rows)
  override def nodeName: String = HeadwaterClone.Words
  override def simpleString(maxFields: Int): String = s"$nodeName ${source.words}"

  override def run(session: SparkSession): Seq[Row] = {
    val answered = catalog.cloneTable(target, definition, creates.mode, creates.ifNotExists, source, arguments)
    answered.flatMap(_.rows).toSeq.flatMap(made =>
      SparkInternals.externalRows(Json.write(made), rows, SparkInternals.conf(session).sessionLocalTimeZone))
  }

  private def definition: NewTable = {
    val properties = creates.properties ++ creates.location.map(TableCatalog.PROP_LOCATION -> _)
    NewTable(source.columns, source.partitioning, properties.asJava)
  }
}
