package headwater.spark.bridge

import java.net.URL

import scala.io.{Codec, Source}
import scala.jdk.CollectionConverters._
import scala.util.Using

import headwater.spark.HeadwaterException

/** Refuses a class path on which nobody can tell whose class answers: two builds of this JAR, or Delta Lake's own connector beside it. */
object ClassPathCheck {
  private val Ours = "headwater/build.properties"
  private val OfDeltaLake = "org/apache/spark/sql/delta/DeltaLog.class"

  def check(loader: ClassLoader): Unit = {
    val builds = found(loader, Ours).distinctBy(url => Using.resource(Source.fromURL(url)(Codec.UTF8))(_.mkString))
    if (builds.size > 1) throw HeadwaterException("HEADWATER_TWO_JARS", "jars" -> builds.map(jar(_, Ours)).mkString(" and "))
    found(loader, OfDeltaLake).headOption.foreach { url =>
      throw HeadwaterException("HEADWATER_BESIDE_DELTA_LAKE", "jar" -> jar(url, OfDeltaLake))
    }
  }

  private def found(loader: ClassLoader, name: String): Seq[URL] = loader.getResources(name).asScala.toSeq

  private def jar(url: URL, name: String): String =
    url.toString.stripPrefix("jar:").stripSuffix(s"!/$name").stripSuffix(s"/$name").stripPrefix("file:")
}
