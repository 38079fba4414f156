package org.apache.spark.sql.headwater

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.internal.SQLConf

/** Settings of a job that are not those of its session: here, where it is planned, and in its tasks. */
object JobSettings {
  /** Nothing is planned anew as stages end: of use where no stage's end tells anything. */
  val PlannedAhead: Map[String, String] = Map(SQLConf.ADAPTIVE_EXECUTION_ENABLED.key -> "false")

  def within[T](session: SparkSession, settings: Map[String, String])(body: => T): T = if (settings.isEmpty) body else {
    val conf = session.sessionState.conf.clone()
    settings.foreach { case (key, value) => conf.setConfString(key, value) }
    val context = session.sparkContext
    val before = settings.keys.map(key => key -> context.getLocalProperty(key)).toMap
    settings.foreach { case (key, value) => context.setLocalProperty(key, value) }
    try SQLConf.withExistingConf(conf)(body)
    finally before.foreach { case (key, value) => context.setLocalProperty(key, value) }
  }
}
