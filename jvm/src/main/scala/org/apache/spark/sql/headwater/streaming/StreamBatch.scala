package org.apache.spark.sql.headwater.streaming

import java.util.UUID

import scala.jdk.CollectionConverters._

import headwater.spark.shims.{LogicalRddShim, StreamingShim}
import org.apache.spark.sql.{classic, DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, MetadataAttribute}
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, EventTimeWatermark, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.streaming.{WriteToStream, WriteToStreamStatement}
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.headwater.ProducedRows
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}

/** Small wrappers around what Spark's streaming keeps to itself. */
object StreamBatch {
  /** The query's id, which its checkpoint keeps over restarts. */
  def queryId(session: SparkSession): String = session.sparkContext.getLocalProperty(StreamingShim.QueryId)

  /**
   * A plan that reads a micro-batch's rows. They are consumed through the batch's own execution: a plan over the batch's logical plan would
   * be planned without its state stores and watermarks, and its rows would not count as the query's.
   */
  def rows(data: DataFrame): LogicalPlan = {
    val execution = data.asInstanceOf[classic.Dataset[_]].queryExecution
    LogicalRddShim(execution.analyzed.output, execution.toRdd, execution.sparkSession, ProducedRows.statistics(execution.optimizedPlan))
  }

  /** What Spark has planned for the micro-batch that this thread processes, if an RDD may have its rows (`foreachBatch`). */
  def running(rows: LogicalRDD): Option[LogicalPlan] = for {
    session <- classic.SparkSession.getActiveSession if rows.rdd.checkpointData.isEmpty
    id <- Option(queryId(session))
    query <- Option(session.sharedState.activeStreamingQueries.get(UUID.fromString(id)))
    execution <- Option(query.lastExecution)
  } yield execution.optimizedPlan

  /** The sink of a query that is about to be checked, and the name that the user gave the query. */
  object Starting {
    def unapply(plan: LogicalPlan): Option[(Table, Option[String])] = plan match {
      case statement: WriteToStreamStatement => Some((statement.sink, statement.userSpecifiedName))
      case _ => None
    }
  }

  /** Spark's own check of a streaming query and of its checkpoint location. Throws what it refuses. */
  def checked(starting: LogicalPlan): LogicalPlan = {
    val checked = StreamingShim.checked(starting)
    // Spark refreshes the sink's table after each batch, which fails for one that is only a path. The sink does what that is for.
    val arguments = checked.productIterator.map {
      case Some(table: CatalogTable) if table.identifier.table.contains("/") => None
      case other => other.asInstanceOf[AnyRef]
    }.toArray[AnyRef]
    checked.makeCopy(arguments)
  }

  /** Whether Spark will refuse a checked query because another of its name, or with its checkpoint, is running. */
  def isActive(session: SparkSession, queryName: Option[String], checked: LogicalPlan): Boolean = {
    val classicSession = session.asInstanceOf[classic.SparkSession]
    val stopsOther = classicSession.sessionState.conf.getConf(SQLConf.STREAMING_STOP_ACTIVE_RUN_ON_RESTART)
    queryName.exists(name => session.streams.active.exists(_.name == name)) ||
    (!stopsOther &&
      (checked match {
        case started: WriteToStream =>
          classicSession.sharedState.activeStreamingQueries.values.asScala.exists(_.resolvedCheckpointRoot ==
            started.resolvedCheckpointLocation)
        case _ => false
      }))
  }

  /**
   * A query whose sources of a kind know the columns that it was analysed with. Spark gives a source none but those that the user named,
   * and takes what it reads by position. Spark also logs the sources of a query, so their options show no value from here on.
   */
  def withAnalysedColumns(starting: LogicalPlan, kind: Class[_]): LogicalPlan = AnalysisHelper.allowInvokingTransformsInAnalyzer {
    starting.transform {
      case relation: StreamingShim.StreamingRelation if kind.isAssignableFrom(relation.dataSource.providingClass) =>
        val columns = StructType(relation.output.collect {
          case column if !MetadataAttribute.isValid(column.metadata) =>
            StructField(column.name, column.dataType, column.nullable, column.metadata)
        })
        val source = relation.dataSource
        if (source.userSpecifiedSchema.contains(columns) && source.options.isInstanceOf[QuietOptions]) relation
        else relation.copy(dataSource = source.copy(userSpecifiedSchema = Some(columns), options = QuietOptions(source.options)))
    }
  }

  /**
   * A query whose sources of a kind, where they have the option `withEventTimeOrder`, know the column of the query's watermark: its name if
   * it is one column of the source, under whatever names between them; else nothing.
   */
  def withEventTimes(starting: LogicalPlan, kind: Class[_]): LogicalPlan = {
    def isMeant(relation: StreamingShim.StreamingRelation) = kind.isAssignableFrom(relation.dataSource.providingClass) &&
      relation.dataSource.options.keys.exists(_.equalsIgnoreCase("withEventTimeOrder"))
    val found = starting.collect { case relation: StreamingShim.StreamingRelation if isMeant(relation) => relation }
    if (found.isEmpty) starting
    else {
      val watermarks = starting.collect { case watermark: EventTimeWatermark => watermark }
      def column(relation: StreamingShim.StreamingRelation): Option[String] = {
        val over = watermarks.filter(_.exists(node => node eq relation))
        val columns = over.map(watermark => origin(watermark.eventTime, watermark.child, relation))
        if (columns.isEmpty) None else Some(if (columns.distinct.size == 1) columns.head.getOrElse("") else "")
      }
      AnalysisHelper.allowInvokingTransformsInAnalyzer {
        starting.transform {
          case relation: StreamingShim.StreamingRelation if isMeant(relation) =>
            val options = relation.dataSource.options ++ column(relation).map(EventTimeColumn -> _)
            relation.copy(dataSource = relation.dataSource.copy(options = options))
        }
      }
    }
  }

  private val EventTimeColumn = "headwater.eventTimeColumn"

  /** The column of a relation that an attribute above it is, under another name or not. */
  private def origin(attribute: Attribute, plan: LogicalPlan, relation: StreamingShim.StreamingRelation): Option[String] = {
    val renamed = plan.collect { case project: Project => project.projectList }.flatten.collect {
      case alias @ Alias(from: Attribute, _) => alias.exprId -> from
    }.toMap
    @scala.annotation.tailrec
    def follow(at: Attribute): Attribute = renamed.get(at.exprId) match {
      case Some(from) => follow(from)
      case None => at
    }
    val source = follow(attribute)
    relation.output.find(_.exprId == source.exprId).map(_.name)
  }
}
