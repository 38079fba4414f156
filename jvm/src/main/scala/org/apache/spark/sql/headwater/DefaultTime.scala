package org.apache.spark.sql.headwater

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf

/**
 * The setting for the time as of which tables are read. Spark knows it as one of its own, so that a view keeps the value that it was created
 * with.
 */
object DefaultTime {
  private val Name = "spark.headwater.timestampAsOf"

  /** Has Spark know it. */
  def register(): Unit = if (!SQLConf.containsConfigKey(Name)) {
    SQLConf.buildConf(Name).version("4.0.0").stringConf.createOptional
  }

  /** The value, and the time zone that it is in: those of the view that Spark resolves, or else the session's. */
  def of(session: SparkSession): Option[(String, String)] = Seq(SQLConf.get, SparkInternals.conf(session))
    .flatMap(conf => Option(conf.getConfString(Name, null)).filter(_.trim.nonEmpty).map(_ -> conf.sessionLocalTimeZone)).headOption
}
