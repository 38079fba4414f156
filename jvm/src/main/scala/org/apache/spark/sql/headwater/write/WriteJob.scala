package org.apache.spark.sql.headwater.write

import headwater.spark.HeadwaterException
import headwater.spark.bridge.{SchemaText, StoreOptions, TableLocation, TaskConfiguration}
import headwater.spark.bridge.messages.WriteSpecification
import headwater.spark.scan.tables.TableState
import headwater.spark.shims.FileFormatWriterShim
import headwater.spark.write.RewriteTracking
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.{ProjectExec, QueryExecution, SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.datasources.FileFormatWriter
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat
import org.apache.spark.sql.types.StructType

/**
 * Runs one write job: writes the rows of a plan to new Parquet files in a table's directory with Spark's own writer.
 *
 * The handler's specification names the directory, the columns as the files have them, the partition columns and the leaf columns whose
 * statistics it needs. The answer lists the files. Nothing refers to them until the handler commits.
 */
object WriteJob {
  /** The files and the tracking of a tracked query. `store` is what was given to reach the table. */
  def write(
      session: SparkSession,
      query: LogicalPlan,
      specification: WriteSpecification,
      store: StoreOptions): (Seq[DescribedFile], Option[RewriteTracking]) = {
    val schema = SchemaText.read(specification.schema)
    val execution = WithoutVoidFields(session, Dataset.ofRows(session, distinctOutput(query)).queryExecution)
    def run(): (Seq[DescribedFile], Option[RewriteTracking]) =
      if (schema.isEmpty) (Nil, Some(RewriteTrackingExec.run(execution.executedPlan)))
      else {
        val committer = new HeadwaterCommitProtocol(specification.path, specification.statistics, specification.changeColumn)
        def cleaning: () => Unit = {
          val conf = store.configuration(session)
          () => committer.removeAll(conf)
        }
        FailedJobCleanup.await(session.sparkContext, specification.path, cleaning) { cancelSoon =>
          committer.onRowError = cancelSoon
          try writeFiles(session, execution, schema, committer, specification, store)
          catch { case e: Throwable => throw committer.rowError.getOrElse(e) }
          committer.rowError.foreach(throw _)
        }
        (committer.files, Option.when(specification.tracked)(committer.tracked))
      }
    def settings = JobSettings.of(execution.optimizedPlan, specification) ++ JobSettings.calendar(session.sessionState.conf)
    try JobSettings.within(session, settings) {
        if (session.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY) == null) SQLExecution.withNewExecutionId(execution)(run())
        else run()
      }
    catch { case e: Throwable => throw HeadwaterException.find(e).getOrElse(e) }
  }

  private def writeFiles(
      session: SparkSession,
      execution: QueryExecution,
      schema: StructType,
      committer: HeadwaterCommitProtocol,
      specification: WriteSpecification,
      store: StoreOptions): Unit = {
    val path = specification.path
    val rows = RowErrorsExec(if (specification.tracked) RewriteTrackingExec(execution.executedPlan) else execution.executedPlan)
    val written = execution.analyzed.output.zip(schema).map { case (column: Attribute, field) =>
      if (!SparkInternals.isStoredAs(column.dataType, field.dataType)) throw HeadwaterException(
        "HEADWATER_ROWS_OF_OTHER_TYPE",
        "columnName" -> field.name,
        "found" -> column.dataType.sql,
        "expected" -> field.dataType.sql)
      AttributeReference(field.name, field.dataType, field.nullable, field.metadata)(column.exprId)
    }
    val (unordered, columns) = withPartitionsInFiles(rows, written, specification)
    val partitions = specification.partitionBy.map(name => written.find(_.name == name).get)
    val plan = if (specification.tracked && specification.changeColumn.isDefined) ChangeDataOrder.sorted(unordered, columns, partitions)
    else unordered
    val conf = session.sessionState.newHadoopConfWithOptions(specification.options ++ store.hadoop)
    FileFormatWriterShim.write(
      session,
      plan,
      new HeadwaterParquetFileFormat(
        TableState.ofNewFiles(path, schema),
        hasChangeData = specification.changeColumn.isDefined,
        statistics = specification.statistics),
      committer,
      FileFormatWriter.OutputSpec(path, Map.empty, columns),
      TaskConfiguration.of(conf),
      partitions,
      specification.options)
  }

  /**
   * Spark's writer leaves partition columns out of the files. So those that the files contain come twice: the copies are no partition
   * columns. They stand before the two columns of change data, the first of which must stay the last one of the files.
   */
  private def withPartitionsInFiles(
      plan: SparkPlan,
      columns: Seq[Attribute],
      specification: WriteSpecification): (SparkPlan, Seq[Attribute]) =
    if (specification.partitionsInFiles.isEmpty) (plan, columns)
    else {
      val at = if (specification.changeColumn.isDefined) columns.size - 2 else columns.size
      val copied = specification.partitionsInFiles.map(name => columns.indexWhere(_.name == name))
      val values = copied.map(plan.output).map(value => Alias(value, value.name)())
      val copies = copied.map(columns).zip(values).map { case (column, value) => column.withNullability(true).withExprId(value.exprId) }
      (ProjectExec(plan.output.patch(at, values, 0), plan), columns.patch(at, copies, 0))
    }

  /** Deletes files of a write, which nothing refers to, by their paths below the table. Files that cannot be deleted stay. */
  def discard(session: org.apache.spark.sql.SparkSession, table: TableLocation, files: Seq[String]): Unit =
    HeadwaterCommitProtocol.discard(table.path, files, table.store.configuration(session))

  /** Gives a column that occurs twice two ids: Spark's writer identifies columns by them. */
  private def distinctOutput(query: LogicalPlan): LogicalPlan =
    if (!query.resolved || query.output.map(_.exprId).distinct.size == query.output.size) query
    else Project(query.output.map(column => Alias(column, column.name)()), query)
}
