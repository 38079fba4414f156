package org.apache.spark.sql.headwater.scan

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.internal.SQLConf

/**
 * Opens files whose columns are found by ids. Spark's vectorized reader takes that from the configuration of the scan, and its reader of
 * rows from the settings of the session, which a task has among its properties. These are not set there: tasks may share them.
 */
class ByFieldIds(opened: PartitionedFile => Iterator[InternalRow]) extends (PartitionedFile => Iterator[InternalRow]) with Serializable {
  @transient private lazy val settings: SQLConf = {
    val found = new SQLConf
    Option(TaskContext.get()).foreach(task => found.settings.putAll(task.getLocalProperties.asScala.asJava))
    found.setConf(SQLConf.PARQUET_FIELD_ID_READ_ENABLED, true)
    found
  }

  override def apply(file: PartitionedFile): Iterator[InternalRow] = SQLConf.withExistingConf(settings)(opened(file))
}
