package org.apache.spark.sql.headwater.scan

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.datasources.{FilePartition, FileScanRDD}
import org.apache.spark.sql.types.StructType

/** Spark's scan of given files, which opens the next file while the rows of one are used ([[OpeningAhead]]). */
class OrderedFilesRDD(session: SparkSession, open: OpeningAhead, partitions: Seq[FilePartition], schema: StructType)
    extends FileScanRDD(session, open, partitions, schema) {

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    open.begin(split.asInstanceOf[FilePartition].files.toIndexedSeq, context)
    super.compute(split, context)
  }
}
