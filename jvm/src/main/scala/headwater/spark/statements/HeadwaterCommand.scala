package headwater.spark.statements

import headwater.spark.bridge.{Bridge, Json, TableLocation}
import headwater.spark.bridge.messages.RowsAnswer
import headwater.spark.bridge.wire.Call
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/**
 * Runs a statement in the handler and returns the rows of its answer. `location` is that of its table. A copy has the same output, as a
 * query may read it. Tasks of such a query get no more than that.
 */
case class HeadwaterCommand(
    @transient request: Call[RowsAnswer],
    name: String,
    schema0: StructType,
    @transient location: Option[TableLocation],
    override val output: Seq[Attribute])
    extends LeafRunnableCommand {
  override val nodeName: String = HeadwaterStatement.words(request.call)
  override def simpleString(maxFields: Int): String = s"$nodeName $name"

  override def run(session: SparkSession): Seq[Row] = {
    val answer = Bridge.call(session, request, location.toSeq: _*)
    SparkInternals.externalRows(Json.write(answer.rows), schema0, SparkInternals.conf(session).sessionLocalTimeZone)
  }
}

object HeadwaterCommand {
  def apply(request: Call[RowsAnswer], name: String, schema: StructType, location: Option[TableLocation]): HeadwaterCommand =
    HeadwaterCommand(request, name, schema, location, SparkInternals.attributes(schema))

  def apply(request: Call[RowsAnswer], name: String, schema: StructType): HeadwaterCommand = HeadwaterCommand(request, name, schema, None)
}
