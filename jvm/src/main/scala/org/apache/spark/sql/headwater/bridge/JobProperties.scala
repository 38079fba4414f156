package org.apache.spark.sql.headwater.bridge

import org.apache.spark.SparkContext

/** Sets local properties of the jobs that a thread starts. */
object JobProperties {
  def within[T](context: SparkContext, properties: Map[String, String])(body: => T): T = {
    val before = properties.keys.map(key => key -> context.getLocalProperty(key)).toMap
    properties.foreach { case (key, value) => context.setLocalProperty(key, value) }
    try body
    finally before.foreach { case (key, value) => context.setLocalProperty(key, value) }
  }

  /**
   * Describes the jobs in Spark's UI and progress bars. This is more specific than the program's own description, which it replaces; the
   * job group, by which jobs are cancelled, stays the program's.
   */
  def describing[T](context: SparkContext, text: String)(body: => T): T =
    within(context, Map(SparkContext.SPARK_JOB_DESCRIPTION -> text))(body)
}
