package org.apache.spark.sql.headwater.scan

import java.io.{FileNotFoundException, IOException}

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.SchemaText
import headwater.spark.bridge.messages.SourceFiles
import org.apache.hadoop.fs.Path
import org.apache.hadoop.security.AccessControlException
import org.apache.spark.SparkThrowable
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.headwater.SparkInternals

/** The rows of files that a statement names, by Spark's own readers. */
object FileSource {
  def plan(session: SparkSession, files: SourceFiles): LogicalPlan = {
    val reader = session.read.format(files.format).options(files.options)
    files.schema.foreach(schema => reader.schema(SchemaText.read(schema)))
    SparkInternals.logicalPlan(reader.load(files.paths.map(uri): _*))
  }

  /**
   * A path as the reader takes it, which would expand the wildcards in it. (Told not to, it reads the other files twice.) A plain path is a
   * local one, whatever the session's default file system is.
   */
  private def uri(path: String): String =
    (if (path.startsWith("/")) new Path("file", null, path).toString else path).replaceAll("""[\\{}\[\]*?]""", """\\$0""")

  /** The file that was damaged, as its reader says: neither one with a row that does not fit, nor one that the store did not give. */
  def damaged(error: Throwable): Option[String] = {
    val causes = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).toSeq
    val read = causes.indexWhere(condition(_).exists(name => Read.exists(name.startsWith)))
    causes.lift(read).filter(_ => !causes.drop(read + 1).exists(condition(_).isDefined) && isOfContent(causes.drop(read + 1))).collect {
      case e: SparkThrowable => e.getMessageParameters.asScala.get("path")
    }.flatten
  }

  private def isOfContent(causes: Seq[Throwable]): Boolean =
    causes.headOption.exists(e => e.isInstanceOf[RuntimeException] || e.isInstanceOf[IOException]) &&
      !causes.exists(e => e.isInstanceOf[FileNotFoundException] || e.isInstanceOf[AccessControlException])

  private def condition(error: Throwable): Option[String] = error match {
    case e: SparkThrowable => Option(e.getCondition)
    case _ => None
  }

  private val Read = Seq("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER")
}
