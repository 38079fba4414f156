package io.delta

import org.apache.spark.sql.{DataFrame, DataFrameReader, DataFrameWriter}
import org.apache.spark.sql.streaming.{DataStreamReader, DataStreamWriter, StreamingQuery}

/** `delta(path)` on readers and writers, as Spark has `parquet(path)`. */
package object implicits {
  implicit class DeltaDataFrameReader(val reader: DataFrameReader) extends AnyVal {
    def delta(path: String): DataFrame = reader.format("delta").load(path)
  }

  implicit class DeltaDataStreamReader(val reader: DataStreamReader) extends AnyVal {
    def delta(path: String): DataFrame = reader.format("delta").load(path)
  }

  implicit class DeltaDataFrameWriter[T](val writer: DataFrameWriter[T]) extends AnyVal {
    def delta(path: String): Unit = writer.format("delta").save(path)
  }

  implicit class DeltaDataStreamWriter[T](val writer: DataStreamWriter[T]) extends AnyVal {
    def delta(path: String): StreamingQuery = writer.format("delta").start(path)
  }
}
