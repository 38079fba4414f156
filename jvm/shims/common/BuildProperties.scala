package headwater.spark.shims

/** What `headwater/basics/versions.py` said when this JAR was built. */
object BuildProperties {
  private val properties = {
    val read = new java.util.Properties()
    val stream = getClass.getResourceAsStream("/headwater/build.properties")
    try read.load(stream)
    finally stream.close()
    read
  }

  val jar: String = properties.getProperty("jar")

  /** The Sparks of this JAR. */
  val supportedSpark: String = properties.getProperty("spark.supported")
  val sparkPattern: String = properties.getProperty("spark.pattern")
  val testedPattern: String = properties.getProperty("spark.tested.pattern")

  /** The Sparks of all JARs of the release. */
  val releasedSpark: String = properties.getProperty("release.spark.supported")
  val releasedPattern: String = properties.getProperty("release.spark.pattern")

  val bridgeVersion: String = properties.getProperty("bridge.version")
}
