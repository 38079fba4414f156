package headwater.spark.scan.rows

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.file.Files
import java.util.Base64
import java.util.zip.CRC32

import org.apache.hadoop.conf.Configuration
import org.roaringbitmap.RoaringBitmap

class DeletionVectorTest extends munit.FunSuite {
  private val beyond32Bits = (3L << 32) + 7
  private val bytes = serialize(Seq(0 -> RoaringBitmap.bitmapOf(1, 5, -1), 3 -> RoaringBitmap.bitmapOf(7)))

  test("an inline vector knows its positions, those beyond 32 bits too") {
    check(DeletionVector.read(s"inline ${Base64.getEncoder.encodeToString(bytes)}", new Configuration()))
  }

  test("a vector in a file is found by its offset, in a path with spaces") {
    check(DeletionVector.read(s"1 ${bytes.length} ${write(bytes, checksum(bytes))}", new Configuration()))
  }

  test("of rows that follow each other, those are live that are not deleted one by one") {
    val inline = s"inline ${Base64.getEncoder.encodeToString(bytes)}"
    val none = s"inline ${Base64.getEncoder.encodeToString(serialize(Seq()))}"
    val others = serialize(Seq(0 -> RoaringBitmap.bitmapOf(2, 5, -1, -2), 1 -> RoaringBitmap.bitmapOf(0)))
    val some = s"inline ${Base64.getEncoder.encodeToString(others)}"
    for {
      description <- Seq(inline, none, s"""["$some", "$inline"]""", s"""["$some", null]""", s"""["$none", null]""")
      first <- Seq(0L, 1L, 3L, 6L, (1L << 32) - 3, (1L << 32) - 1, 1L << 32, beyond32Bits - 4)
      count <- Seq(1, 2, 3, 5, 9)
    } {
      val vector = DeletionVector.read(description, new Configuration())
      val left = new Array[Int](count)
      val live = left.take(vector.live(first, count, left)).toSeq
      assertEquals(live, (0 until count).filterNot(row => vector.contains(first + row)), s"$description from $first, $count")
    }
  }

  test("a damaged file names itself") {
    val path = write(bytes, checksum(bytes) + 1)
    val error = intercept[Exception](DeletionVector.read(s"1 ${bytes.length} $path", new Configuration()))
    assert(error.getMessage.contains(path), error.getMessage)
    val short = intercept[Exception](DeletionVector.read(s"1 ${bytes.length + 1} $path", new Configuration()))
    assert(short.getMessage.contains("size"), short.getMessage)
  }

  private def check(vector: DeletionVector): Unit = {
    Seq(1L, 5L, 0xffffffffL, beyond32Bits).foreach(position => assert(vector.contains(position), position))
    Seq(0L, 2L, 7L, (1L << 32) + 1, beyond32Bits + 1).foreach(position => assert(!vector.contains(position), position))
  }

  /** The portable 64-bit format: magic, count, then key and bitmap in turn, little-endian. */
  private def serialize(bitmaps: Seq[(Int, RoaringBitmap)]): Array[Byte] = {
    val buffer = ByteBuffer.allocate(1024).order(ByteOrder.LITTLE_ENDIAN)
    buffer.putInt(1681511377).putLong(bitmaps.size)
    bitmaps.foreach { case (key, bitmap) =>
      buffer.putInt(key)
      bitmap.serialize(buffer)
    }
    java.util.Arrays.copyOf(buffer.array(), buffer.position())
  }

  private def checksum(content: Array[Byte]): Int = {
    val crc = new CRC32()
    crc.update(content)
    crc.getValue.toInt
  }

  /** A deletion vector file: the format's version, then size, content and checksum, big-endian. */
  private def write(content: Array[Byte], crc: Int): String = {
    val buffer = new ByteArrayOutputStream()
    val out = new DataOutputStream(buffer)
    out.writeByte(1)
    out.writeInt(content.length)
    out.write(content)
    out.writeInt(crc)
    Files.write(Files.createTempFile("deletion vector ", ".bin"), buffer.toByteArray).toString
  }
}
