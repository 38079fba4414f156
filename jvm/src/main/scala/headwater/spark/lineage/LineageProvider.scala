package headwater.spark.lineage

import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import io.openlineage.spark.extension.OpenLineageExtensionProvider
import org.apache.spark.internal.Logging

/** By `META-INF/services`, OpenLineage's Spark listener finds this class, and by it [[LineageVisitor]]. Nothing else loads it. */
final class LineageProvider extends OpenLineageExtensionProvider with Logging {
  override def shadedPackage(): String = getClass.getPackage.getName

  /** A visitor that the listener's class loader does not find would end the listener: that one gets a class that answers nothing. */
  override def getVisitorClassName(): String = {
    val visitor = classOf[LineageVisitor].getName
    val listener = StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE).getCallerClass
    try { listener.getClassLoader.loadClass(visitor); visitor }
    catch {
      case NonFatal(_) | _: LinkageError =>
        if (LineageProvider.isNews.getAndSet(false))
          logWarning("OpenLineage names no Delta table that is written: give Spark its JAR in the same way as Headwater's.")
        classOf[Object].getName
    }
  }
}

private object LineageProvider {
  /** The listener asks for each execution. */
  val isNews = new AtomicBoolean(true)
}
