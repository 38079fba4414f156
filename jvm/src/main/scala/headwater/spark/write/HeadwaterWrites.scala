package headwater.spark.write

import headwater.spark.bridge.{Bridge, StatementContext, StoreOptions, TableLocation}
import headwater.spark.bridge.messages.{CreateTableRequest, PlanSaveRequest, WriteRequest}
import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.headwater.SparkInternals

/** Hands rows to the handler, which writes and commits them. */
object HeadwaterWrites {
  /** Writes rows that already match the table's schema. */
  def write(target: WriteTarget, data: DataFrame, options: Map[String, String]): Unit = {
    val table = target.table
    val context = new StatementContext(table.session, table.location)
    target.replaceWhere.foreach(context.noteComposed)
    try Bridge.call(
        context,
        WriteRequest(
          table = table.path,
          name = Some(table.name()),
          version = Some(table.snapshotVersion),
          tableId = Some(table.info.tableId),
          plan = context.addPlan(SparkInternals.logicalPlan(data)),
          schema = SparkInternals.rowSchema(data.schema),
          mode = target.mode,
          replaceWhere = target.replaceWhere,
          readsTable = target.readsTable,
          rowsAreFixed = target.rowsAreFixed,
          options = StoreOptions.others(options)))
    finally context.close()
    SparkInternals.refreshCaches(table.session, table.location)
  }

  /** Saves rows to a location. The handler decides whether this creates, replaces or appends. */
  def save(
      session: SparkSession,
      location: TableLocation,
      mode: String,
      partitioning: Seq[String],
      writeOptions: Map[String, String],
      data: DataFrame): Unit = {
    val path = location.path
    val options = StoreOptions.others(writeOptions)
    val plan = SparkInternals.logicalPlan(data)
    val statement = new StatementContext(session, location)
    val decision = Bridge.call(statement, PlanSaveRequest(path, mode, partitioning, options))
    decision.action match {
      case "create" =>
        try Bridge.call(
            statement,
            CreateTableRequest(
              table = path,
              name = None,
              mode = decision.mode.get,
              external = true,
              schema = SparkInternals.rowSchema(SparkInternals.asNullable(data.schema)),
              partitionColumns = partitioning,
              plan = Some(statement.addPlan(plan)),
              rowSchema = Some(SparkInternals.rowSchema(data.schema)),
              saveMode = Some(mode),
              options = options))
        finally statement.close()
        SparkInternals.refreshCaches(session, location)
      case "write" if decision.write.contains("replace") =>
        PlanHeadwaterReplace.command(
          session,
          HeadwaterTable.load(session, location),
          Nil,
          plan,
          None,
          options,
          byName = true,
          casts = false).run(session)
      case "write" =>
        val table = HeadwaterTable.load(session, location)
        val target = WriteTarget(table, decision.write.get).of(plan)
        // As with Delta Lake, a save by path must have the column's type, or one that Spark stores in it without a look at the values.
        val matched = ResolveHeadwaterWrites.matchColumns(session, target, plan, options, byName = true, casts = false)
        write(target, SparkInternals.ofRows(session, matched), options)
      case _ =>
    }
  }
}
