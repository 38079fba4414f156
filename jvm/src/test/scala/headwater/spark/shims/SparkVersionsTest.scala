package headwater.spark.shims

import headwater.spark.HeadwaterException

class SparkVersionsTest extends munit.FunSuite {
  test("the Spark that these tests run on, and later patches of its line, run; other lines are refused") {
    val running = org.apache.spark.SPARK_VERSION
    assert(SparkVersions.isTested(running), BuildProperties.supportedSpark)
    val later = running.split('.').take(2).mkString("", ".", ".99")
    assert(!SparkVersions.isTested(later))
    Seq(running, later, later).foreach(SparkVersions.check)
    val refused = intercept[HeadwaterException](SparkVersions.check("4.99.0"))
    assertEquals(refused.getCondition, "HEADWATER_UNSUPPORTED_SPARK_VERSION")
    val ofAnotherJar = intercept[HeadwaterException](SparkVersions.check("4.1.0"))
    assertEquals(ofAnotherJar.getCondition, "HEADWATER_JAR_OF_OTHER_SPARK")
    assert(ofAnotherJar.getMessage.contains("headwater.jar"), ofAnotherJar.getMessage)
  }
}
