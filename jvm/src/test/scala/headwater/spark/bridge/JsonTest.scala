package headwater.spark.bridge

class JsonTest extends munit.FunSuite {
  test("Scala values become JSON and come back") {
    val node = Json.parse(Json.write(Map("a" -> Seq(1, 2), "b" -> Some("x"), "c" -> None, "d" -> Map("e" -> true))))
    assertEquals(node.toString, """{"a":[1,2],"b":"x","c":null,"d":{"e":true}}""")
    assertEquals(Json.text(node.get("b")), "x")
    assertEquals(Json.text(node.get("c")), null)
    assertEquals(Json.strings(node.get("a")), Seq("1", "2"))
    assertEquals(Json.strings(node.get("missing")), Nil)
  }
}
