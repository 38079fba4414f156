package headwater.spark.statements

import java.io.InputStream
import java.net.URL
import java.util.Enumeration

import org.apache.hadoop.hive.ql.exec.UDFClassLoader
import org.apache.hadoop.hive.ql.session.SessionState

/**
 * Keeps the JARs of `--jars` open when a session of the Thrift server ends.
 *
 * When a Hive session ends, it closes its class loader and that loader's parents, up to the loader that Hive came from. If a client runs a
 * statement synchronously (ODBC and PyHive do, JDBC does not), Spark sets its loader of the application's JARs as the session's. Spark's
 * `close` does nothing, but its parent's closes the JARs, and from then on no session finds a class that was not loaded before. Hive closes
 * nothing if its own loader is not among the parents. So the session gets a loader that finds the same classes and has no parent.
 */
object HiveSessionClassLoader {
  private val hasHive = try { Class.forName("org.apache.hadoop.hive.ql.session.SessionState", false, getClass.getClassLoader); true }
  catch { case _: ClassNotFoundException => false }

  /** Each statement calls this in its thread, right after Spark has set the session's loader. */
  def protect(): Unit = if (hasHive) protectSession()

  private def protectSession(): Unit = Option(SessionState.get()).map(_.getConf).filter(_ != null).foreach { conf =>
    conf.getClassLoader match {
      case null | _: UDFClassLoader | _: Unclosed => // Hive's own, created for this session, or ours
      case loader => conf.setClassLoader(new Unclosed(loader))
    }
  }

  /** Finds what another loader finds, without having it as a parent. */
  private final class Unclosed(loader: ClassLoader) extends ClassLoader(null) {
    override protected def loadClass(name: String, resolve: Boolean): Class[_] = loader.loadClass(name)
    override def getResource(name: String): URL = loader.getResource(name)
    override def getResources(name: String): Enumeration[URL] = loader.getResources(name)
    override def getResourceAsStream(name: String): InputStream = loader.getResourceAsStream(name)
  }
}
