package headwater.spark.statements

import headwater.spark.bridge.{Bridge, Json, TableLocation}
import headwater.spark.bridge.messages.CommitAnswer
import headwater.spark.bridge.wire.Call
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** Runs a statement in the handler that may commit to the table at `location`. `schema0` is that of the rows it returns. */
case class HeadwaterChangeCommand(request: Call[CommitAnswer], location: TableLocation, name: String, schema0: StructType = new StructType)
    extends LeafRunnableCommand {
  override val output: Seq[Attribute] = SparkInternals.attributes(schema0)
  override def nodeName: String = HeadwaterStatement.words(request.call)
  override def simpleString(maxFields: Int): String = s"$nodeName $name"

  override def run(session: SparkSession): Seq[Row] = {
    val answer = Bridge.call(session, request, location)
    SparkInternals.refreshCaches(session, location)
    answer.rows.toSeq.flatMap(rows =>
      SparkInternals.externalRows(Json.write(rows), schema0, SparkInternals.conf(session).sessionLocalTimeZone))
  }
}
