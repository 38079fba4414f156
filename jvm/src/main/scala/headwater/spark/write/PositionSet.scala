package headwater.spark.write

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.mutable

import org.roaringbitmap.RoaringBitmap

/** A set of 64-bit positions, as a deletion vector has them: Roaring bitmaps of the low halves, keyed by the high halves. */
final class PositionSet extends Serializable {
  private val bitmaps = mutable.TreeMap.empty[Int, RoaringBitmap]

  /** Adds a position; false if it was there already. */
  def add(position: Long): Boolean =
    bitmaps.getOrElseUpdate((position >>> 32).toInt, new RoaringBitmap()).checkedAdd(position.toInt)

  def contains(position: Long): Boolean = bitmaps.get((position >>> 32).toInt).exists(_.contains(position.toInt))

  /** Adds all positions of another set; returns how many were there already. */
  def addAll(other: PositionSet): Long = other.bitmaps.iterator.map { case (high, theirs) =>
    val mine = bitmaps.getOrElseUpdate(high, new RoaringBitmap())
    val both = RoaringBitmap.andCardinality(mine, theirs).toLong
    mine.or(theirs)
    both
  }.sum

  /** Roaring's portable 64-bit format: the number of bitmaps, then each one after its key, all little-endian. */
  def serialize: Array[Byte] = {
    val out = new ByteArrayOutputStream()
    out.write(littleEndian(8)(_.putLong(bitmaps.size.toLong)))
    bitmaps.foreach { case (high, bitmap) =>
      bitmap.runOptimize()
      out.write(littleEndian(4)(_.putInt(high)))
      bitmap.serialize(new DataOutputStream(out))
    }
    out.toByteArray
  }

  private def littleEndian(size: Int)(put: ByteBuffer => ByteBuffer): Array[Byte] =
    put(ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN)).array()
}
