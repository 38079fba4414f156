package headwater.spark.statements

import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.{Call, CommitAnswer}
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.headwater.SparkInternals

/** Runs a statement in the handler that commits to the table at `path` and returns no rows. */
case class HeadwaterChangeCommand(request: Call[CommitAnswer], path: String, name: String) extends LeafRunnableCommand {
  override def nodeName: String = HeadwaterStatement.words(request.call)
  override def simpleString(maxFields: Int): String = s"$nodeName $name"

  override def run(session: SparkSession): Seq[Row] = {
    Bridge.call(session, request)
    SparkInternals.refreshCaches(session, path)
    Nil
  }
}
