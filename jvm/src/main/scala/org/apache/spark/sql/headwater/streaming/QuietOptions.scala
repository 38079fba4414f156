package org.apache.spark.sql.headwater.streaming

import scala.collection.immutable.AbstractMap

/** Options whose text has no value in it. */
final class QuietOptions private (options: Map[String, String]) extends AbstractMap[String, String] {
  override def get(name: String): Option[String] = options.get(name)
  override def iterator: Iterator[(String, String)] = options.iterator
  override def updated[V >: String](name: String, value: V): Map[String, V] = options.updated(name, value)
  override def removed(name: String): Map[String, String] = options.removed(name)
  override def toString: String = options.keys.mkString("Options(", ", ", ")")
}

object QuietOptions {
  def apply(options: Map[String, String]): QuietOptions = options match {
    case quiet: QuietOptions => quiet
    case other => new QuietOptions(other)
  }
}
