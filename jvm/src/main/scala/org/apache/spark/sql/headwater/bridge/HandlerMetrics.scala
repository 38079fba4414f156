package org.apache.spark.sql.headwater.bridge

import java.util.{Collections, WeakHashMap}
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._

import com.codahale.metrics.{Gauge, MetricRegistry}
import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.SparkEnv
import org.apache.spark.metrics.MetricsSystem
import org.apache.spark.metrics.source.Source

/**
 * The source `headwater` of Spark's metrics system: the calls to the handler and their times, and what the handler counts.
 *
 * The handler sends its counts along with answers, so that no sink ever waits for it.
 */
object HandlerMetrics extends Source {
  override val sourceName: String = "headwater"
  override val metricRegistry: MetricRegistry = new MetricRegistry

  private val calls = metricRegistry.timer("calls")
  private val errors = metricRegistry.counter("callErrors")
  private val starts = metricRegistry.counter("handlerStarts")
  private val levels = new ConcurrentHashMap[String, java.lang.Long]
  private val systems = Collections.newSetFromMap(new WeakHashMap[MetricsSystem, java.lang.Boolean])

  /** Makes the source known to this Spark, once. */
  def register(): Unit = Option(SparkEnv.get).map(_.metricsSystem).foreach { system =>
    if (systems.synchronized(systems.add(system))) system.registerSource(this)
  }

  def handlerStarted(): Unit = starts.inc()

  /** A call was answered, after so many nanoseconds. */
  def answered(answer: JsonNode, nanoseconds: Long): Unit = {
    calls.update(nanoseconds, TimeUnit.NANOSECONDS)
    if (answer.has("error")) errors.inc()
    val counted = answer.path("counted")
    counted.path("counts").properties.asScala.foreach(entry => metricRegistry.counter(entry.getKey).inc(entry.getValue.asLong))
    counted.path("levels").properties.asScala.foreach(entry => setLevel(entry.getKey, entry.getValue.asLong))
  }

  private def setLevel(name: String, value: Long): Unit =
    if (levels.put(name, value) == null) metricRegistry.register(name, (() => levels.get(name)): Gauge[java.lang.Long])
}
