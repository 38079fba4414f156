package org.apache.spark.sql.headwater.dml

import headwater.spark.dml.LostBlockException
import org.apache.spark.{Partition, SparkContext, SparkEnv, TaskContext}
import org.apache.spark.rdd.{BlockRDD, BlockRDDPartition, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.storage.{BlockId, RDDBlockId, StorageLevel}

/**
 * Rows kept on executors, of one attempt at each task. Spark's own cache keeps those of every attempt that ends, a speculative one's beside the
 * first one's, and computes again what is lost; but rows that were shuffled come in another order each time, and others need not be the same
 * at all. Here a task answers with the block it made, which is no other attempt's, and to read one that is lost is an error.
 *
 * @param of the RDD whose rows these are; the blocks bear its number.
 */
private final class MaterializedBlockRDD(context: SparkContext, blocks: Array[BlockId], of: Int) extends BlockRDD[InternalRow](context, blocks) {
  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] = {
    val block = split.asInstanceOf[BlockRDDPartition].blockId
    SparkEnv.get.blockManager.get[InternalRow](block) match {
      case Some(found) => found.data.asInstanceOf[Iterator[InternalRow]]
      case None => throw new LostBlockException(block.name)
    }
  }

  def drop(): Unit = sparkContext.env.blockManager.master.removeRdd(of, blocking = false)
}

private object MaterializedBlockRDD {
  def store(rows: RDD[InternalRow]): MaterializedBlockRDD = {
    val of = rows.id
    val numbers = rows.sparkContext.runJob(rows, (task: TaskContext, computed: Iterator[InternalRow]) => {
      val number = (task.taskAttemptId() & Int.MaxValue).toInt
      if (!SparkEnv.get.blockManager.putIterator(RDDBlockId(of, number), computed, StorageLevel.MEMORY_AND_DISK))
        throw new IllegalStateException(s"the rows of partition ${task.partitionId()} could not be kept")
      number
    })
    new MaterializedBlockRDD(rows.sparkContext, numbers.map(RDDBlockId(of, _): BlockId), of)
  }
}
