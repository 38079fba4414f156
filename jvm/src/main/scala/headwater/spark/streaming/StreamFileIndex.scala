package headwater.spark.streaming

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.Bridge
import headwater.spark.bridge.messages.StreamFilesRequest
import headwater.spark.scan.files.{FileList, ListedFile}
import headwater.spark.scan.tables.{HeadwaterFileIndex, IndexedFiles}

/**
 * The files of a micro-batch. The handler lists them when Spark plans the scan, and leaves out those that the query's filters exclude.
 *
 * @param start the offset that the micro-batch begins after; None for the first
 */
private class StreamFileIndex(indexed: IndexedFiles, stream: JsonNode, start: Option[String], end: String)
    extends HeadwaterFileIndex(indexed) {

  override def isWholeTable: Boolean = false

  override protected def scan(filters: Seq[JsonNode]): Iterator[ListedFile] =
    FileList.fromAnswer(Bridge.call(session, StreamFilesRequest(stream, start, end, filters), tableLocation), partitionSchema.length)

  override def equals(other: Any): Boolean = other match {
    case that: AnyRef => this eq that
    case _ => false
  }

  override def hashCode(): Int = System.identityHashCode(this)

  override def toString: String = s"HeadwaterStream($path, $start to $end)"
}
