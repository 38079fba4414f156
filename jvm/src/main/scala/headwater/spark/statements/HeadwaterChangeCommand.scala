package headwater.spark.statements

import headwater.spark.bridge.{Bridge, Json}
import headwater.spark.bridge.messages.CommitAnswer
import headwater.spark.bridge.wire.Call
import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** Runs a statement in the handler that may commit to a table. `schema0` is that of the rows it returns. */
case class HeadwaterChangeCommand(request: Call[CommitAnswer], table: HeadwaterTable, schema0: StructType = new StructType)
    extends LeafRunnableCommand {
  override val output: Seq[Attribute] = SparkInternals.attributes(schema0)
  override def nodeName: String = s"${HeadwaterStatement.words(request.call)} ${table.name()}"
  override def simpleString(maxFields: Int): String = nodeName

  override def run(session: SparkSession): Seq[Row] = {
    val answer = Bridge.call(session, request, table.location)
    SparkInternals.refreshCaches(session, table.location)
    answer.rows.toSeq.flatMap(rows =>
      SparkInternals.externalRows(Json.write(rows), schema0, SparkInternals.conf(session).sessionLocalTimeZone))
  }
}
