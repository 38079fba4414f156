package headwater.spark.statements

import java.io.InputStream
import java.net.URL
import java.util.Enumeration

import org.apache.hadoop.hive.ql.exec.UDFClassLoader
import org.apache.hadoop.hive.ql.session.SessionState

/**
 * Keeps the JARs of Spark's `--jars` open when a session of the Thrift server ends.
 *
 * A session of Hive that ends closes its class loader and that one's parents, up to the loader that Hive came from. A statement that a client
 * runs synchronously (as ODBC and PyHive do, and JDBC does not) makes Spark's loader of the application's JARs the session's: Spark's
 * own `close` does nothing, its parent's closes the JARs, and after that no session finds a class that was not used before. Hive closes nothing
 * if its loader is not among the parents, so the session gets a loader that finds the same classes and has no parent.
 */
object HiveSessionClassLoader {
  private val hasHive = try { Class.forName("org.apache.hadoop.hive.ql.session.SessionState", false, getClass.getClassLoader); true }
    catch { case _: ClassNotFoundException => false }

  /** To be called by each statement, in its thread: Spark sets the session's loader just before. */
  def protect(): Unit = if (hasHive) protectSession()

  private def protectSession(): Unit = Option(SessionState.get()).map(_.getConf).filter(_ != null).foreach { conf =>
    conf.getClassLoader match {
      case null | _: UDFClassLoader | _: Unclosed => // Hive's own, made for this session, or protected
      case loader => conf.setClassLoader(new Unclosed(loader))
    }
  }

  /** Finds what another loader finds, which is not its parent. */
  private final class Unclosed(loader: ClassLoader) extends ClassLoader(null) {
    override protected def loadClass(name: String, resolve: Boolean): Class[_] = loader.loadClass(name)
    override def getResource(name: String): URL = loader.getResource(name)
    override def getResources(name: String): Enumeration[URL] = loader.getResources(name)
    override def getResourceAsStream(name: String): InputStream = loader.getResourceAsStream(name)
  }
}
