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
    val bitmap = of(position)
    bitmap != null && bitmap.contains(position.toInt)
  }

  /**
   * The rows that are left of `count` rows that follow each other, the first at the position `first`: their numbers, from 0 on, in `left`;
   * returns how many they are. A row that is not deleted costs no search.
   */
  def live(first: Long, count: Int, left: Array[Int]): Int = {
    var found, next = 0
    foreach(first, count) { row =>
      while (next < row) { left(found) = next; found += 1; next += 1 }
      next = row + 1
    }
    while (next < count) { left(found) = next; found += 1; next += 1 }
    found
  }

  /** The positions among `count` of them from `first` on, less `first`, ascending. */
  final def foreach(first: Long, count: Int)(take: Int => Unit): Unit = {
    // Positions that follow each other may begin below a multiple of 2^32 and end above it.
    val here = math.min(count.toLong, (1L << 32) - (first & 0xffffffffL)).toInt
    val bitmap = of(first)
    if (bitmap != null) {
      val positions = bitmap.getIntIterator
      positions.advanceIfNeeded(first.toInt)
      var row = 0L
      while (positions.hasNext && { row = (positions.next() & 0xffffffffL) - (first & 0xffffffffL); row < here }) take(row.toInt)
    }
    if (here < count) foreach(first + here, count - here)(row => take(row + here))
  }

  /** The positions of the rows that are left, ascending, where they are so few that a reader should decode no others. */
  def few: Option[Array[Long]] = None

  final def positions: Array[Long] =
    keys.zip(bitmaps).flatMap { case (high, bitmap) => bitmap.toArray.map(low => (high.toLong << 32) | (low & 0xffffffffL)) }

  private def of(position: Long): RoaringBitmap = {
    val i = java.util.Arrays.binarySearch(keys, (position >>> 32).toInt)
    if (i < 0) null else bitmaps(i)
  }
}

/**
 * Everything counts as deleted but the rows in `only` that are not in `without`: for change data of rows that a commit marked, and for rows
 * that an index has.
 */
private final class ChangedRowsVector(only: DeletionVector, without: Option[DeletionVector], areFew: Boolean)
    extends DeletionVector(Array.empty, Array.empty) {
  override def contains(position: Long): Boolean = !only.contains(position) || without.exists(_.contains(position))

  override def few: Option[Array[Long]] = Option.when(areFew)(only.positions.filterNot(position => without.exists(_.contains(position))))

  override def live(first: Long, count: Int, left: Array[Int]): Int = {
    var found = 0
    only.foreach(first, count) { row =>
      if (!without.exists(_.contains(first + row))) { left(found) = row; found += 1 }
    }
    found
  }
}

object DeletionVector {
  /**
   * The key of a file's metadata under which a scan carries its vector: `inline <base64>` or `<offset> <size> <path>`. Where only
   * some rows are read, it is a JSON array `[only, without]` of two such texts, the second of which may be null; followed by `true` if they
   * are few.
   */
  val MetadataKey = "headwater_deletion_vector"
  private val Magic = 1681511377

  def read(description: String, conf: Configuration): DeletionVector =
    if (description.startsWith("[")) {
      val vectors = Json.parse(description)
      new ChangedRowsVector(read(vectors.get(0).asText(), conf), Option(Json.text(vectors.get(1))).map(read(_, conf)), vectors.has(2))
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
