package org.apache.spark.sql.headwater

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf

/**
 * The setting for the time as of which tables are read. Spark knows it as one of its own, so that a view keeps the value that it was
 * created with.
 */
object DefaultTime {
  /** A time as somebody set it, and the time zone that it is in. */
  final case class Value(text: String, zone: String)

  private val Name = "spark.headwater.timestampAsOf"
  /** Spark sets this property of the threads of its streams. */
  private val OfStream = "sql.streaming.queryId"
  /** The time that [[within]] sets for what is resolved now, or that it has no time; None outside of [[within]]. */
  private val around = new ThreadLocal[Option[Option[Value]]] {
    override def initialValue(): Option[Option[Value]] = None
  }

  /** Has Spark know it. */
  def register(): Unit = if (!SQLConf.containsConfigKey(Name)) {
    SQLConf.buildConf(Name).version("4.0.0").stringConf.createOptional
  }

  /** The time of the view that Spark resolves, or of the nearest one around it; else the session's. A stream's session has none. */
  def of(session: SparkSession): Option[Value] = {
    val own = SparkInternals.conf(session)
    val ofView = Option(SQLConf.get).filter(_ ne own).flatMap(value)
    def ofSession = if (session.sparkContext.getLocalProperty(OfStream) == null) value(own) else None
    ofView.orElse(around.get.getOrElse(ofSession))
  }

  /** What is resolved here has a time, or has none, unless it is a view with a time of its own. */
  def within[T](time: Option[Value])(resolve: => T): T = {
    val before = around.get
    around.set(Some(time))
    try resolve
    finally around.set(before)
  }

  private def value(conf: SQLConf): Option[Value] =
    Option(conf.getConfString(Name, null)).filter(_.trim.nonEmpty).map(Value(_, conf.sessionLocalTimeZone))
}
