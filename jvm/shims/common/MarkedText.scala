package headwater.spark.shims

/** A statement's text in pieces, of which each second is a parameter marker. */
private[spark] final case class MarkedText(pieces: Seq[String]) {
  val markers: Seq[String] = pieces.indices.collect { case i if i % 2 == 1 => pieces(i) }

  /** The text with something else in the place of each marker. */
  def withValues(values: Int => String): String =
    pieces.indices.map(i => if (i % 2 == 1) values(i / 2) else pieces(i)).mkString
}
