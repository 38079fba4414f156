package headwater.spark.shims

class SparkVersionsTest extends munit.FunSuite {
  test("the Spark of this build is one of the supported ones") {
    assert(SparkVersions.isSupported(org.apache.spark.SPARK_VERSION), BuildProperties.supportedSpark)
    SparkVersions.check()
  }
}
