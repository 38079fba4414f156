package org.apache.spark.sql.headwater

import org.apache.spark.SparkContext

/** Properties of the jobs that a thread starts. */
object LocalProperties {
  def within[T](context: SparkContext, properties: Map[String, String])(body: => T): T = {
    val before = properties.keys.map(key => key -> context.getLocalProperty(key)).toMap
    properties.foreach { case (key, value) => context.setLocalProperty(key, value) }
    try body
    finally before.foreach { case (key, value) => context.setLocalProperty(key, value) }
  }
}
