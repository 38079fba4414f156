package org.apache.spark.sql.headwater.dml

import headwater.spark.dml.LostBlockException
import org.apache.spark.{Partition, SparkContext, SparkEnv, TaskContext}
import org.apache.spark.rdd.{BlockRDD, BlockRDDPartition, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.storage.{BlockId, RDDBlockId, StorageLevel}

/**
 * Materialized rows on executors, from exactly one attempt at each task.
 *
 * Spark's own cache keeps the blocks of every attempt that succeeds, speculative ones too, and computes lost blocks again. But shuffled
 * rows come in another order each time, and may be other rows. Here each task returns the id of the block it wrote, and reading a lost
 * block is an error.
 *
 * @param of the id of the RDD whose rows these are; the blocks are named by it
 */
private final class MaterializedBlockRDD(context: SparkContext, blocks: Array[BlockId], of: Int)
    extends BlockRDD[InternalRow](context, blocks) {
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
    val numbers = rows.sparkContext.runJob(
      rows,
      (task: TaskContext, computed: Iterator[InternalRow]) => {
        val number = (task.taskAttemptId() & Int.MaxValue).toInt
        if (!SparkEnv.get.blockManager.putIterator(RDDBlockId(of, number), computed, StorageLevel.MEMORY_AND_DISK))
          throw new IllegalStateException(s"the rows of partition ${task.partitionId()} could not be stored")
        number
      })
    new MaterializedBlockRDD(rows.sparkContext, numbers.map(RDDBlockId(of, _): BlockId), of)
  }
}
