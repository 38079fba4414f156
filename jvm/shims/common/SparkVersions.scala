package headwater.spark.shims

import java.util.concurrent.atomic.AtomicBoolean

import headwater.spark.HeadwaterException
import org.apache.spark.internal.Logging

/** The Spark versions that this JAR runs on. The rules are those of `headwater/basics/versions.py`, which both builds copy into the JAR. */
object SparkVersions extends Logging {
  private val warned = new AtomicBoolean

  def isSupported(version: String): Boolean = version.matches(BuildProperties.sparkPattern)

  def isTested(version: String): Boolean = version.matches(BuildProperties.testedPattern)

  /** Refuses another line of Spark; a later patch of a line that this build knows gives one warning for each JVM. */
  def check(running: String): Unit =
    if (!running.matches(BuildProperties.releasedPattern)) {
      throw HeadwaterException("HEADWATER_UNSUPPORTED_SPARK_VERSION", "supported" -> BuildProperties.releasedSpark, "version" -> running)
    } else if (!isSupported(running)) {
      throw HeadwaterException(
        "HEADWATER_JAR_OF_OTHER_SPARK",
        "jar" -> BuildProperties.jar,
        "supported" -> BuildProperties.supportedSpark,
        "version" -> running)
    } else if (!isTested(running) && warned.compareAndSet(false, true)) {
      logWarning(
        s"This Headwater was tested with Spark ${BuildProperties.supportedSpark}, not with $running, another patch of the same line. " +
          "If a statement fails here that works there, install one of these, or a newer headwater.")
    }
}
