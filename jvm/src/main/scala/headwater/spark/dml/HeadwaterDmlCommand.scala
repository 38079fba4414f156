package headwater.spark.dml

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.{Bridge, StatementContext}
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

  override def simpleString(maxFields: Int): String = s"${statement.toUpperCase} ${table.name()}"

  override def run(session: SparkSession): Seq[Row] = {
    val answer = call(session, statement)
    SparkInternals.refreshCaches(session, table.path)
    Seq(Row.fromSeq(answer.get("counts").elements().asScala.map(_.asLong()).toSeq))
  }

  /** What the statement would do, without running it. */
  def explain(session: SparkSession, mode: String): String = call(session, "explain", "statement" -> statement, "mode" -> mode).asText()

  private def call(session: SparkSession, name: String, more: (String, Any)*) = {
    val context = new StatementContext(session)
    try Bridge.call(context, name, pieces.request(context, table) ++ more: _*)
    finally context.close()
  }
}
