package headwater.spark.shims

class SparkVersionsTest extends munit.FunSuite {
  test("the Spark of this build is one of the supported ones") {
    assert(SparkVersions.Supported.contains(org.apache.spark.SPARK_VERSION), SparkVersions.Supported)
    SparkVersions.check()
  }
}
