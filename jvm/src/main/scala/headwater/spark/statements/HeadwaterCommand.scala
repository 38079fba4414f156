package headwater.spark.statements

import headwater.spark.bridge.{Bridge, Json, StatementContext}
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** Runs a statement in the handler and returns the rows of its answer. */
case class HeadwaterCommand(command: String, path: String, name: String, arguments: String, schema0: StructType) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = SparkInternals.attributes(schema0)
  override def nodeName: String = HeadwaterStatement.words(command)
  override def simpleString(maxFields: Int): String = s"$nodeName $name"

  override def run(session: SparkSession): Seq[Row] = {
    val answer = Bridge.call(new StatementContext(session), command, "table" -> path, "name" -> name, "arguments" -> Json.parse(arguments))
    SparkInternals.externalRows(Json.write(answer.get("rows")), schema0, SparkInternals.conf(session).sessionLocalTimeZone)
  }
}
