package headwater.spark.shims

import headwater.spark.HeadwaterException

/** The Spark versions this build runs on. The rule is that of `headwater/versions.py`, which both builds copy into the JAR. */
object SparkVersions {
  def isSupported(version: String): Boolean = version.matches(BuildProperties.sparkPattern)

  def check(): Unit = {
    val running = org.apache.spark.SPARK_VERSION
    if (!isSupported(running)) {
      throw HeadwaterException("HEADWATER_UNSUPPORTED_SPARK_VERSION", "supported" -> BuildProperties.supportedSpark, "version" -> running)
    }
  }
}
