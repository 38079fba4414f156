package headwater.spark.shims

import java.lang.reflect.InvocationTargetException

import org.apache.hadoop.conf.Configuration
import org.apache.spark.internal.io.FileCommitProtocol
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.{FileFormat, FileFormatWriter}

/** Calls Spark's `FileFormatWriter.write` under each of its signatures: 4.2.1 added a parameter with a default. */
object FileFormatWriterShim {
  private val method = FileFormatWriter.getClass.getMethods.filter(_.getName == "write").maxBy(_.getParameterCount)

  def write(
      session: SparkSession,
      plan: SparkPlan,
      format: FileFormat,
      committer: FileCommitProtocol,
      output: FileFormatWriter.OutputSpec,
      conf: Configuration,
      partitionColumns: Seq[Attribute],
      options: Map[String, String]): Unit = {
    val known = Seq[AnyRef](session, plan, format, committer, output, conf, partitionColumns, None, Nil, options, Int.box(0))
    val defaults = (known.size + 1 to method.getParameterCount).map { position =>
      FileFormatWriter.getClass.getMethod(s"write$$default$$$position").invoke(FileFormatWriter)
    }
    try method.invoke(FileFormatWriter, known ++ defaults: _*)
    catch { case e: InvocationTargetException => throw e.getCause }
  }
}
