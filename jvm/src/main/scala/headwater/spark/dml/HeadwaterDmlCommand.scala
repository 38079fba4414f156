package headwater.spark.dml

import headwater.spark.bridge.{Bridge, StatementContext}
import headwater.spark.bridge.messages.{ChangeRequest, ExplainRequest}
import headwater.spark.bridge.wire.Call
import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.LongType

/** Runs a DELETE, UPDATE or MERGE in the handler. */
case class HeadwaterDmlCommand(statement: String, table: HeadwaterTable, pieces: DmlPieces) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = {
    val counted = if (statement == "merge") Seq("affected", "updated", "deleted", "inserted") else Seq("affected")
    counted.map(name => AttributeReference(s"num_${name}_rows", LongType)())
  }

  override def nodeName: String = s"${statement.toUpperCase} ${table.name()}"
  override def simpleString(maxFields: Int): String = nodeName

  override def run(session: SparkSession): Seq[Row] = {
    val answer = call(session)(request => request)
    SparkInternals.refreshCaches(session, table.location)
    Seq(Row.fromSeq(answer.counts.getOrElse(Nil)))
  }

  /** What the statement would do, without running it. */
  def explain(session: SparkSession, mode: String): String = call(session)(ExplainRequest(statement, mode, _))

  private def call[A](session: SparkSession)(request: ChangeRequest => Call[A]): A = {
    val context = new StatementContext(session, table.location)
    try Bridge.call(context, request(pieces.request(statement, context, table)))
    finally context.close()
  }
}
