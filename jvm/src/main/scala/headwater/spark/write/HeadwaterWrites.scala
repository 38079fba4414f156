package headwater.spark.write

import headwater.spark.bridge.{Bridge, StatementContext}
import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.headwater.SparkInternals

/** Hands rows to the handler, which writes and commits them. */
object HeadwaterWrites {
  /** Writes rows that already match the table's schema. */
  def write(table: HeadwaterTable, data: DataFrame, options: Map[String, String]): Unit = {
    val context = new StatementContext(table.session)
    Bridge.call(
      context, "write",
      "table" -> table.path,
      "name" -> table.name(),
      "version" -> table.snapshotVersion,
      "tableId" -> table.info.get("tableId"),
      "plan" -> context.addPlan(SparkInternals.logicalPlan(data)),
      "schema" -> data.schema.json,
      "options" -> options)
    SparkInternals.refreshCaches(table.session, table.path)
  }

  /** Saves rows to a path. The handler decides whether this creates, replaces or appends. */
  def save(
      session: SparkSession, path: String, mode: String, partitioning: Seq[String], options: Map[String, String], data: DataFrame): Unit = {
    val plan = SparkInternals.logicalPlan(data)
    val statement = new StatementContext(session)
    val decision = Bridge.call(
      statement, "plan_save",
      "table" -> path,
      "mode" -> mode,
      "partitionColumns" -> partitioning,
      "options" -> options)
    decision.get("action").asText() match {
      case "create" =>
        Bridge.call(
          statement, "create_table",
          "table" -> path,
          "mode" -> decision.get("mode"),
          "external" -> true,
          "schema" -> SparkInternals.asNullable(data.schema).json,
          "partitionColumns" -> partitioning,
          "properties" -> Map.empty[String, String],
          "plan" -> statement.addPlan(plan),
          "rowSchema" -> data.schema.json,
          "operation" -> "WRITE",
          "saveMode" -> mode,
          "options" -> options)
        SparkInternals.refreshCaches(session, path)
      case "write" =>
        val table = HeadwaterTable.load(session, path)
        val written = options + (ResolveHeadwaterWrites.OverwriteMode -> decision.get("write").asText())
        // As with Delta Lake, a save by path must have the column's type, or one that Spark stores in it without a look at the values.
        val matched = ResolveHeadwaterWrites.matchColumns(session, table, plan, written, byName = true, casts = false)
        write(table, SparkInternals.ofRows(session, matched), written)
      case _ =>
    }
  }
}
