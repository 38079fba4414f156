package headwater.spark.scan.rows

import java.io.{DataInputStream, EOFException, FileNotFoundException, IOException}
import java.nio.{ByteBuffer, ByteOrder}
import java.util.Base64

import headwater.spark.HeadwaterException
import headwater.spark.bridge.Json
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.roaringbitmap.RoaringBitmap

/**
 * The deleted positions of one file. Follows the protocol's chapter "Deletion Vector Format": 64-bit positions as 32-bit Roaring bitmaps,
 * keyed by the high half.
 */
class DeletionVector(keys: Array[Int], bitmaps: Array[RoaringBitmap]) {
  def contains(position: Long): Boolean = {
    val i = java.util.Arrays.binarySearch(keys, (position >>> 32).toInt)
    i >= 0 && bitmaps(i).contains(position.toInt)
  }
}

/** Everything counts as deleted but the rows in `only` that are not in `without`: for change data of rows that a commit marked. */
private final class ChangedRowsVector(only: DeletionVector, without: Option[DeletionVector])
    extends DeletionVector(Array.empty, Array.empty) {
  override def contains(position: Long): Boolean = !only.contains(position) || without.exists(_.contains(position))
}

object DeletionVector {
  /**
   * The key of a file's metadata under which a scan carries its vector: `inline <base64>` or `<offset> <size> <path>`. For change data it
   * is a JSON array `[only, without]` of two such texts, the second of which may be null.
   */
  val MetadataKey = "headwater_deletion_vector"
  private val Magic = 1681511377

  def read(description: String, conf: Configuration): DeletionVector =
    if (description.startsWith("[")) {
      val vectors = Json.parse(description)
      new ChangedRowsVector(read(vectors.get(0).asText(), conf), Option(Json.text(vectors.get(1))).map(read(_, conf)))
    } else if (description.startsWith("inline ")) parse(Base64.getDecoder.decode(description.substring(7)), "inline in the log")
    else description.split(" ", 3) match {
      case Array(offset, size, path) => read(offset.toLong, size.toInt, path, conf)
      case _ => throw new IllegalArgumentException(s"no description of a deletion vector: $description")
    }

  private def read(offset: Long, size: Int, path: String, conf: Configuration): DeletionVector = {
    val file = new Path(path)
    val in = try file.getFileSystem(conf).open(file)
    catch { case _: FileNotFoundException => throw damaged(path, "its file does not exist") }
    try {
      in.seek(offset)
      val data = new DataInputStream(in)
      val stored = data.readInt()
      if (stored != size) throw damaged(path, s"its size is $stored, the log says $size")
      val bytes = new Array[Byte](stored)
      data.readFully(bytes)
      val crc = new java.util.zip.CRC32()
      crc.update(bytes)
      if (data.readInt() != crc.getValue.toInt) throw damaged(path, "its checksum does not match")
      parse(bytes, path)
    } catch { case _: EOFException => throw damaged(path, "it ends early") }
    finally in.close()
  }

  private def damaged(path: String, why: String): Throwable =
    HeadwaterException("DELTA_DELETION_VECTOR_INVALID", "path" -> path, "reason" -> why).inRow

  /** Bytes that are no bitmap make the reader throw one of these exceptions. */
  private def parse(bytes: Array[Byte], path: String): DeletionVector =
    try parse(bytes)
    catch {
      case e @ (_: RuntimeException | _: IOException) => throw damaged(path, Option(e.getMessage).getOrElse(e.getClass.getSimpleName))
    }

  private def parse(bytes: Array[Byte]): DeletionVector = {
    val buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)
    require(buffer.getInt() == Magic, "its format is not known")
    val stored = buffer.getLong()
    require(stored >= 0 && stored <= bytes.length, s"it claims to have $stored bitmaps")
    val count = stored.toInt
    val keys = new Array[Int](count)
    val bitmaps = new Array[RoaringBitmap](count)
    var i = 0
    while (i < count) {
      keys(i) = buffer.getInt()
      val bitmap = new RoaringBitmap()
      bitmap.deserialize(buffer.slice().order(ByteOrder.LITTLE_ENDIAN))
      buffer.position(buffer.position() + bitmap.serializedSizeInBytes())
      bitmaps(i) = bitmap
      i += 1
    }
    new DeletionVector(keys, bitmaps)
  }
}
