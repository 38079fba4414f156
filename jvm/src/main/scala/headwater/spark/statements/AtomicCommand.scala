package headwater.spark.statements

import com.fasterxml.jackson.databind.node.JsonNodeFactory
import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.ParsedStatementRequest
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.execution.command.LeafRunnableCommand

/** `BEGIN ATOMIC … END`: runs a script as one transaction, which ends with it. It returns no rows. */
case class AtomicCommand(script: String) extends LeafRunnableCommand {
  override def nodeName: String = "BEGIN ATOMIC"
  override def simpleString(maxFields: Int): String = nodeName

  override def run(session: SparkSession): Seq[Row] = {
    call(session, "begin_transaction")
    try session.sql(script).collect()
    catch {
      case e: Throwable =>
        try call(session, "rollback_transaction")
        catch { case other: Throwable => e.addSuppressed(other) }
        throw e
    }
    call(session, "commit_transaction")
    Nil
  }

  private def call(session: SparkSession, command: String): Unit =
    Bridge.call(session, ParsedStatementRequest("", "", JsonNodeFactory.instance.objectNode().put("script", true))(command))
}

object AtomicCommand {
  val Command = "atomic"
}
