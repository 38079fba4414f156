package org.apache.spark.sql.headwater.scan

import headwater.spark.shims.LogicalRddShim
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Statistics}
import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.PartitionedFileUtil
import org.apache.spark.sql.execution.datasources.{FileFormat, FilePartition, HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.{IntegerType, LongType, NullType, StructField, StructType}

/**
 * A plan that reads files in the order of their index, so many in each task, whole and one after another. Spark's own scan packs files into
 * tasks by their sizes, and cuts large ones.
 */
object OrderedFiles {
  /**
   * @param relation over an index that numbers its files, and so lists each in a directory of its own, in their order
   * @param tasks how many files each task reads
   * @param trackingNames the names for the columns of row tracking, which none of the relation's columns has; empty without them
   */
  def plan(session: SparkSession, relation: LogicalRelation, tasks: Seq[Int], trackingNames: Seq[String]): LogicalPlan = {
    val classicSession = session.asInstanceOf[classic.SparkSession]
    val files = relation.relation.asInstanceOf[HadoopFsRelation]
    val format = files.fileFormat.asInstanceOf[HeadwaterParquetFileFormat]
    val tracking = if (trackingNames.isEmpty) Nil else format.rowTracking.toSeq.flatMap(_.names)
    val partitionNames = files.partitionSchema.fieldNames.map(_.toLowerCase).toSet
    // No file holds a column of nulls alone.
    val stored = files.dataSchema.filterNot(field => partitionNames(field.name.toLowerCase) || field.dataType == NullType)
    val read = StructType(stored ++ tracking.map(StructField(_, LongType)))
    val reader = format.buildReaderWithPartitionValues(
      session,
      StructType(files.dataSchema ++ tracking.map(StructField(_, LongType))),
      files.partitionSchema,
      read,
      Nil,
      files.options + (FileFormat.OPTION_RETURNING_BATCH -> "false"),
      classicSession.sessionState.newHadoopConfWithOptions(files.options))
    val numbered = files.partitionSchema.map(_.dataType) :+ IntegerType
    val listed = files.location.listFiles(Nil, Nil).flatMap { directory =>
      val values = InternalRow.fromSeq(directory.values.toSeq(numbered).init)
      directory.files.map(file => PartitionedFileUtil.getPartitionedFile(file, file.getPath, values, 0, file.getLen))
    }
    val starts = tasks.scanLeft(0)(_ + _)
    val partitions = tasks.zip(starts).zipWithIndex.map { case ((count, start), i) =>
      FilePartition(i, listed.slice(start, start + count).toArray)
    }
    val names = stored.map(_.name) ++ (if (tracking.isEmpty) Nil else trackingNames) ++ files.partitionSchema.fieldNames
    val output = SparkInternals.attributes(StructType(
      names.zip(read ++ files.partitionSchema).map { case (name, field) => field.copy(name = name, nullable = true) }))
    val rows = new OrderedFilesRDD(classicSession, new OpeningAhead(reader), partitions, StructType(read ++ files.partitionSchema))
    LogicalRddShim(output, rows, classicSession, Statistics(listed.map(_.length).sum))
  }
}
