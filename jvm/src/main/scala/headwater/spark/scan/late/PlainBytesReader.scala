package headwater.spark.scan.late

import java.nio.{ByteBuffer, ByteOrder}

import org.apache.parquet.bytes.ByteBufferInputStream
import org.apache.parquet.column.values.ValuesReader
import org.apache.parquet.io.ParquetDecodingException
import org.apache.parquet.io.api.Binary

/**
 * Reads the values of a page of strings or bytes in the encoding PLAIN: length and bytes in turn. Parquet's own reader reads each byte of a
 * length from a stream, which takes most of the time where few of many values are needed, as by the positions that an index has.
 */
private final class PlainBytesReader extends ValuesReader {
  private var page: ByteBuffer = _
  private var next = 0

  override def initFromPage(count: Int, stream: ByteBufferInputStream): Unit = {
    page = stream.slice(stream.available()).order(ByteOrder.LITTLE_ENDIAN)
    next = page.position()
  }

  override def skip(): Unit = skip(1)

  override def skip(count: Int): Unit = {
    var at = next
    var left = count
    while (left > 0) {
      at = endOf(at)
      left -= 1
    }
    next = at
  }

  override def readBytes(): Binary = {
    val end = endOf(next)
    val value = new Array[Byte](end - next - 4)
    page.duplicate().position(next + 4).get(value)
    next = end
    Binary.fromConstantByteArray(value)
  }

  private def endOf(start: Int): Int = {
    val length = page.getInt(start)
    if (length < 0 || length > page.limit() - start - 4)
      throw new ParquetDecodingException(s"a value of $length bytes does not fit its page")
    start + 4 + length
  }
}
