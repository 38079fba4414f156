package headwater.spark.shims

import headwater.spark.HeadwaterException

/** The Spark versions this build runs on: those of `headwater/versions.py`, which both builds copy into the JAR. */
object SparkVersions {
  val Supported: Seq[String] = {
    val properties = new java.util.Properties()
    val stream = getClass.getResourceAsStream("/headwater/build.properties")
    try properties.load(stream) finally stream.close()
    properties.getProperty("spark.supported").split(",").toSeq
  }

  def check(): Unit = {
    val running = org.apache.spark.SPARK_VERSION
    if (!Supported.exists(version => running == version || running.startsWith(version + "-"))) {
      throw HeadwaterException("HEADWATER_UNSUPPORTED_SPARK_VERSION", "supported" -> Supported.mkString(" and "), "version" -> running)
    }
  }
}
