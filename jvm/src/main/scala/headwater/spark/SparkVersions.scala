package headwater.spark

/** The Spark versions this build runs on. `headwater.versions` says the same on the Python side, and a test holds them together. */
object SparkVersions {
  val Supported: Seq[String] = Seq("4.2.0", "4.2.1")

  def check(): Unit = {
    val running = org.apache.spark.SPARK_VERSION
    if (!Supported.exists(version => running == version || running.startsWith(version + "-"))) {
      throw new HeadwaterException(
        "HEADWATER_UNSUPPORTED_SPARK_VERSION",
        "0A000",
        s"This Headwater works with Spark ${Supported.mkString(" and ")}, not with $running. Install a matching pyspark or headwater.",
        Map("version" -> running))
    }
  }
}
