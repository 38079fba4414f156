package io.delta.tables

import java.util.UUID

import org.apache.spark.sql.{DataFrame, DataFrameReader, SparkSession}

/** What a [[DeltaTable]] opens: a table by its name, as SQL. */
private[tables] class Opened(spark: SparkSession, val name: String) extends Serializable {
  /** The table's rows. */
  def frame: DataFrame = reader.table(name)

  /** Reads the newest version, which is the one that changes. */
  protected def reader: DataFrameReader =
    if (spark.conf.getOption("spark.headwater.timestampAsOf").isEmpty) spark.read else spark.read.option("newestVersion", "true")

  /** Runs a statement that names the table. */
  def sql(text: String): DataFrame = spark.sql(text)
}

/**
 * A table by its path that is reached with options, which are credentials mostly. They travel in a temporary view, in the form that
 * `headwater.tables.opening` describes, and are in no statement's text.
 */
private[tables] final class OpenedWithOptions(spark: SparkSession, path: String, options: Map[String, String], view: String)
    extends Opened(spark, SqlText.path(s"/$view")) {
  private var running = 0

  override def frame: DataFrame = reader.format("delta").options(options).load(path)

  override def sql(text: String): DataFrame = {
    synchronized {
      if (running == 0) frame.createOrReplaceTempView(view)
      running += 1
    }
    try super.sql(text)
    finally synchronized {
        running -= 1
        if (running == 0) spark.catalog.dropTempView(view)
      }
  }
}

private[tables] object Opened {
  def apply(spark: SparkSession, path: String, hadoopConf: scala.collection.Map[String, String]): Opened = {
    val options = hadoopConf.filter { case (name, _) => name.startsWith("fs.") || name.startsWith("dfs.") }.toMap
    if (options.isEmpty) new Opened(spark, SqlText.path(path))
    else new OpenedWithOptions(spark, path, options, s"__headwater_table_${UUID.randomUUID().toString.replace("-", "")}")
  }
}
