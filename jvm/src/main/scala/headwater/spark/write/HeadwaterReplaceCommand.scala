package headwater.spark.write

import headwater.spark.bridge.{Bridge, StatementContext}
import headwater.spark.bridge.messages.ReplaceRequest
import headwater.spark.catalog.HeadwaterTable
import headwater.spark.dml.DmlPieces
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.headwater.SparkInternals

/** Runs an INSERT … REPLACE USING or ON in the handler; parameters as of [[ReplaceRequest]]. */
case class HeadwaterReplaceCommand(
    table: HeadwaterTable,
    pieces: DmlPieces,
    using: Seq[String],
    condition: Option[String],
    options: Map[String, String])
    extends LeafRunnableCommand {
  override val output: Seq[Attribute] = Nil

  override def nodeName: String = s"INSERT REPLACE ${table.name()}"
  override def simpleString(maxFields: Int): String =
    s"INSERT INTO ${table.name()} REPLACE " + (if (using.isEmpty) "ON" else using.mkString("USING (", ", ", ")"))

  override def run(session: SparkSession): Seq[Row] = {
    val context = new StatementContext(session, table.location)
    try Bridge.call(context, ReplaceRequest(pieces.request("replace", context, table), using, condition, options))
    finally context.close()
    SparkInternals.refreshCaches(session, table.location)
    Nil
  }
}
