package headwater.spark.bridge

import java.net.URLClassLoader
import java.nio.file.{Files, Path}

import headwater.spark.HeadwaterException

class ClassPathCheckTest extends munit.FunSuite {
  private def folder(resources: (String, String)*): Path = {
    val made = Files.createTempDirectory("headwater-class-path")
    for ((name, content) <- resources) {
      Files.createDirectories(made.resolve(name).getParent)
      Files.writeString(made.resolve(name), content)
    }
    made
  }

  private def condition(folders: Path*): Option[(String, String)] =
    try {
      ClassPathCheck.check(new URLClassLoader(folders.map(_.toUri.toURL).toArray, null))
      None
    } catch { case e: HeadwaterException => Some(e.getCondition -> e.getMessage) }

  private def build(version: String) = "headwater/build.properties" -> s"bridge.version=$version"

  test("two builds of the JAR are refused, the same one twice is not") {
    val (one, same, other) = (folder(build("1")), folder(build("1")), folder(build("2")))
    assertEquals(condition(one, same), None)
    val Some((refused, text)) = condition(one, other): @unchecked
    assertEquals(refused, "HEADWATER_TWO_JARS")
    for (each <- Seq(one, other)) assert(text.contains(each.toString), text)
  }

  test("Delta Lake's own connector beside it is refused") {
    val peer = folder("org/apache/spark/sql/delta/DeltaLog.class" -> "")
    val Some((refused, text)) = condition(folder(build("1")), peer): @unchecked
    assertEquals(refused, "HEADWATER_BESIDE_DELTA_LAKE")
    assert(text.contains(peer.toString), text)
  }
}
