package headwater.spark.scan.late

import org.apache.parquet.bytes.ByteBufferInputStream
import org.apache.parquet.column.{ColumnDescriptor, Dictionary, Encoding, ValuesType}
import org.apache.parquet.column.page.{DataPageV1, DataPageV2, PageReader}
import org.apache.parquet.column.values.ValuesReader
import org.apache.parquet.column.values.rle.RunLengthBitPackingHybridDecoder
import org.apache.parquet.io.ParquetDecodingException
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName

/**
 * The values of a flat column in one row group, read in ascending order of rows. Parquet's own value readers skip the rows in between,
 * whatever the encoding.
 *
 * Definition levels and pages are read here by hand because no public reader of Parquet's or Spark's seeks a single row without decoding
 * the rows before it. It pays: the UPDATE of the bench case `update-few` takes 1.4 s with late columns and 2.4 s without (2 cores, local
 * disk; median of 7).
 */
private[headwater] final class ParquetValueCursor(column: ColumnDescriptor, pages: PageReader, nullable: Boolean) {
  private val dictionary: Dictionary = Option(pages.readDictionaryPage()).map(page => page.getEncoding.initDictionary(column, page)).orNull
  private var end = 0L
  /** Reads the definition level of the next row: 1 if it has a value. Null if no row of the group is null. */
  private var levels: () => Int = _

  /** The row after the last one that was read. */
  var following = 0L
  /** Where [[seek]] has found a value: the reader whose next value it is. */
  var values: ValuesReader = _

  /** Moves to a row of the group. Returns whether it has a value, which is not null. */
  def seek(row: Long): Boolean = {
    while (row >= end) nextPage()
    val skipped = (row - following).toInt
    following = row + 1
    if (levels == null) {
      if (skipped > 0) values.skip(skipped)
      true
    } else {
      var present = 0
      var i = 0
      while (i < skipped) { present += levels(); i += 1 }
      if (present > 0) values.skip(present)
      levels() == 1
    }
  }

  private def nextPage(): Unit = {
    val next = pages.readPage()
    // Pages before it may have been left out.
    following = if (next == null) end else next.getFirstRowIndex.orElse(end)
    end = following
    next match {
      case page: DataPageV1 =>
        val stream = page.getBytes.toInputStream
        def leveled(encoding: Encoding, kind: ValuesType) = {
          val reader = encoding.getValuesReader(column, kind)
          reader.initFromPage(page.getValueCount, stream)
          reader
        }
        leveled(page.getRlEncoding, ValuesType.REPETITION_LEVEL)
        val defined = leveled(page.getDlEncoding, ValuesType.DEFINITION_LEVEL)
        levels = if (nullable) () => defined.readInteger() else null
        open(page.getValueEncoding, page.getValueCount, stream)
      case page: DataPageV2 =>
        levels = if (!nullable) null
        else {
          val defined = new RunLengthBitPackingHybridDecoder(1, page.getDefinitionLevels.toInputStream)
          () => defined.readInt()
        }
        open(page.getDataEncoding, page.getValueCount, page.getData.toInputStream)
      case _ => throw new ParquetDecodingException(s"column ${column.getPath.mkString(".")} has fewer values than its row group has rows")
    }
  }

  private def open(encoding: Encoding, count: Int, stream: ByteBufferInputStream): Unit = {
    values =
      if (encoding.usesDictionary) encoding.getDictionaryBasedValuesReader(column, ValuesType.VALUES, dictionary)
      else if (encoding == Encoding.PLAIN && column.getPrimitiveType.getPrimitiveTypeName == PrimitiveTypeName.BINARY) new PlainBytesReader
      else encoding.getValuesReader(column, ValuesType.VALUES)
    values.initFromPage(count, stream)
    end += count
  }
}
