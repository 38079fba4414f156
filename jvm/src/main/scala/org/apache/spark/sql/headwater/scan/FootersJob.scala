package org.apache.spark.sql.headwater.scan

import java.io.FileNotFoundException

import scala.collection.mutable
import scala.util.control.NonFatal

import headwater.spark.bridge.{SchemaText, StoreOptions, TaskConfiguration}
import headwater.spark.bridge.messages.{FileFooter, Footers, FootersQuestion}
import headwater.spark.scan.files.{FieldIds, ForeignStatistics}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.hadoop.{Footer, ParquetFileReader}
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFileFormat, ParquetToSparkSchemaConverter}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.util.{SerializableConfiguration, ThreadUtils}

/** Reads the footers of Parquet files by tasks: the columns as Spark reads them, rows, and statistics. */
object FootersJob {
  /** How many footers a task reads at the same time, as it mostly waits for a store. */
  private val AtOnce = 8
  /** From so many files a task on, there are more tasks than cores. */
  private val MostOfTask = 1024

  def run(session: SparkSession, question: FootersQuestion, store: StoreOptions): Footers = {
    val spark = session.sparkContext
    val conf = spark.broadcast(new SerializableConfiguration(TaskConfiguration.of(configuration(session, store))))
    val files = question.paths.zip(question.sizes)
    val tasks = files.size.min(spark.defaultParallelism.max(files.size / MostOfTask)).max(1)
    val (columns, most) = (question.columns, question.most)
    val found =
      try spark.parallelize(files, tasks).mapPartitions(some => Iterator.single(read(some.toSeq, columns, most, conf))).collect()
      finally conf.destroy()
    merged(found.toSeq)
  }

  /** A schema that many files have is held once. */
  private def merged(parts: Seq[Footers]): Footers = {
    val schemas = mutable.LinkedHashMap.empty[String, Int]
    val files = parts.flatMap { part =>
      val numbers = part.schemas.map(schema => schemas.getOrElseUpdate(SparkInternals.rowSchema(SchemaText.read(schema)), schemas.size))
      part.files.map(file => if (file.problem.isDefined) file else file.copy(schema = numbers(file.schema)))
    }
    Footers(schemas.keys.toSeq, files)
  }

  /** Spark's converter asks Hadoop's configuration for these. */
  private def configuration(session: SparkSession, store: StoreOptions): Configuration = {
    val (made, conf) = (store.configuration(session), SparkInternals.conf(session))
    made.setBoolean(SQLConf.PARQUET_BINARY_AS_STRING.key, conf.isParquetBinaryAsString)
    made.setBoolean(SQLConf.PARQUET_INT96_AS_TIMESTAMP.key, conf.isParquetINT96AsTimestamp)
    made.setBoolean(SQLConf.CASE_SENSITIVE.key, conf.caseSensitiveAnalysis)
    made.setBoolean(SQLConf.PARQUET_INFER_TIMESTAMP_NTZ_ENABLED.key, conf.parquetInferTimestampNTZEnabled)
    made.setBoolean(SQLConf.LEGACY_PARQUET_NANOS_AS_LONG.key, conf.legacyParquetNanosAsLong)
    made
  }

  private def read(
      files: Seq[(String, Long)],
      columns: Option[Seq[Seq[String]]],
      most: Int,
      conf: Broadcast[SerializableConfiguration]): Footers = {
    val hadoop = conf.value.value
    val schemas = mutable.LinkedHashMap.empty[String, Int]
    val described = ThreadUtils.parmap(files, "headwater-footers", AtOnce) { case (path, size) =>
      try Right(describe(new Path(path), size, columns, most, hadoop))
      catch {
        case _: FileNotFoundException => Left("it is gone")
        case NonFatal(e) => Left(Option(e.getMessage).getOrElse(e.getClass.getSimpleName))
      }
    }
    val found = described.map {
      case Right((schema, footer)) => footer.copy(schema = schemas.getOrElseUpdate(schema, schemas.size))
      case Left(problem) => FileFooter(0, 0L, Nil, Some(problem))
    }
    Footers(schemas.keys.toSeq, found)
  }

  private def describe(
      path: Path,
      size: Long,
      columns: Option[Seq[Seq[String]]],
      most: Int,
      conf: Configuration): (String, FileFooter) = {
    val status = new FileStatus(size, false, 0, 0L, 0L, path)
    val reader = ParquetFileReader.open(HadoopInputFile.fromStatus(status, conf), HadoopReadOptions.builder(conf, path).build())
    try {
      val footer = reader.getFooter
      val schema = ParquetFileFormat.readSchemaFromFooter(new Footer(path, footer), new ParquetToSparkSchemaConverter(conf))
      val statistics = new ForeignStatistics(footer, schema)
      (FieldIds.added(schema, footer.getFileMetaData.getSchema).json, FileFooter(0, statistics.rows, statistics.of(columns, most), None))
    } finally reader.close()
  }
}
