package headwater

import scala.io.Source

class BuildTest extends munit.FunSuite {
  test("the JAR carries the error conditions") {
    val text = Source.fromInputStream(getClass.getResourceAsStream("/headwater/error-conditions.json"), "UTF-8").mkString
    assert(text.contains("\"DELTA_INTERNAL_ERROR\""))
  }
}
