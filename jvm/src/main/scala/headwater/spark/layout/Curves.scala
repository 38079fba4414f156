package headwater.spark.layout

/**
 * Curves through all points of a cube with 2^bits^ points a side: a point's place on each, from 0. Points that are near each other on a
 * curve are near each other in the cube. The Hilbert curve never jumps: from one place to the next, one coordinate changes, by 1.
 */
object Curves {
  /** The place on the Z-order curve: the bits of the coordinates in turn, the highest first. */
  def zOrder(bits: Int, point: Array[Int]): Long = {
    var place = 0L
    var bit = bits - 1
    while (bit >= 0) {
      var i = 0
      while (i < point.length) {
        place = (place << 1) | ((point(i) >>> bit) & 1)
        i += 1
      }
      bit -= 1
    }
    place
  }

  /** The place on the Hilbert curve, by Skilling's transformation ("Programming the Hilbert curve", 2004). Changes the point. */
  def hilbert(bits: Int, point: Array[Int]): Long = {
    val last = point.length - 1
    var mask = 1 << (bits - 1)
    while (mask > 1) {
      val low = mask - 1
      var i = 0
      while (i <= last) {
        if ((point(i) & mask) != 0) point(0) ^= low
        else {
          val exchanged = (point(0) ^ point(i)) & low
          point(0) ^= exchanged
          point(i) ^= exchanged
        }
        i += 1
      }
      mask >>= 1
    }
    var i = 1
    while (i <= last) { point(i) ^= point(i - 1); i += 1 }
    var flipped = 0
    mask = 1 << (bits - 1)
    while (mask > 1) {
      if ((point(last) & mask) != 0) flipped ^= mask - 1
      mask >>= 1
    }
    i = 0
    while (i <= last) { point(i) ^= flipped; i += 1 }
    zOrder(bits, point)
  }
}
