package headwater.spark.scan.files

import headwater.spark.scan.rows.FileRowIds
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.Json
import headwater.spark.bridge.messages.FileListAnswer

/** Reads the list of a scan's files from the handler's answer. */
object FileList {
  /**
   * Each file is `[path, size, modificationTime, deletionVector | null, partition value, ...]`, with row tracking followed by two numbers
   * ([[FileRowIds]]).
   */
  def fromJson(files: JsonNode, partitionColumns: Int): Iterator[ListedFile] =
    files.elements().asScala.map { file =>
      ListedFile(
        file.get(0).asText(),
        file.get(1).asLong(),
        file.get(2).asLong(),
        (0 until partitionColumns).map(i => Json.text(file.get(4 + i))),
        Json.text(file.get(3)),
        Option.when(file.size > 4 + partitionColumns)(FileRowIds(
          number(file.get(4 + partitionColumns)),
          number(file.get(5 + partitionColumns)))))
    }

  private def number(value: JsonNode): Option[Long] = Option.unless(value.isNull)(value.asLong())

  def fromAnswer(answer: FileListAnswer, partitionColumns: Int): Iterator[ListedFile] =
    answer.arrow.map(ArrowFileList.read(_, partitionColumns)).getOrElse(fromJson(answer.files.get, partitionColumns))
}
