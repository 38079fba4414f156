package headwater.spark.bridge

import java.util.Properties

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

/**
 * The part of a Hadoop configuration that tasks need: all but MapReduce's and YARN's own defaults, two thirds of the settings, which no
 * reader, writer or file system asks for. A setting that a site, a user or Spark has made stays, whatever its name.
 *
 * A job serializes its configuration twice, and each task reads it; that was a fifth of a one-row INSERT (bench case `insert`). Hadoop also
 * compresses, for each setting, the name of the file it comes from. The answer has no such names.
 */
object TaskConfiguration {
  private val Defaults = Set("mapred-default.xml", "yarn-default.xml")
  private val Reference = """\$\{([^}$\s]+)\}""".r

  def of(conf: Configuration): Configuration = {
    val (left, needed) = conf.iterator.asScala.map(entry => entry.getKey -> entry.getValue).toMap.partition { case (name, _) =>
      Option(conf.getPropertySources(name)).exists(_.lastOption.exists(Defaults))
    }
    val settings = new Properties()
    (needed ++ referenced(needed.values, left)).foreach { case (name, value) => settings.setProperty(name, value) }
    val found = new Configuration(false)
    found.setClassLoader(conf.getClassLoader)
    // Unlike `set`, this notes no source. Hadoop takes properties from another configuration only.
    found.addResource(new Configuration(false) { override protected def getProps: Properties = settings })
    found.size() // loads them: what is copied or serialized from here on has them
    found
  }

  /** Those that the values name: `${name}` is the value of that setting. */
  private def referenced(values: Iterable[String], left: Map[String, String]): Map[String, String] = {
    @tailrec def more(values: Iterable[String], found: Map[String, String]): Map[String, String] = {
      val named = values.filter(_.contains("${")).flatMap(Reference.findAllMatchIn(_).map(_.group(1)))
      val next = named.filter(name => left.contains(name) && !found.contains(name)).map(name => name -> left(name)).toMap
      if (next.isEmpty) found else more(next.values, found ++ next)
    }
    more(values, Map.empty)
  }
}
