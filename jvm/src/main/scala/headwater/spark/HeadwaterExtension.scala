package headwater.spark

import headwater.spark.bridge.Bridge
import headwater.spark.changes.{FindChangeReads, ResolveTableChanges, TableChangesFunctions}
import headwater.spark.dml.{InlineApiViews, PlanHeadwaterDml, ResolveApiColumns, ResolveHeadwaterDml, ResolveVariables}
import headwater.spark.scan.{AggregateFromLog, PinSnapshots, ResolveHeadwaterRelations}
import headwater.spark.shims.SparkVersions
import headwater.spark.statements.{HeadwaterParser, ResolveHeadwaterCommands}
import headwater.spark.write.ResolveHeadwaterWrites
import org.apache.spark.sql.SparkSessionExtensions

/** The first of the two configuration lines: the parser, rules and functions Headwater adds to a session. */
class HeadwaterExtension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    SparkVersions.check()
    // The handler's imports take a second; they run while Spark itself starts.
    Option(org.apache.spark.SparkEnv.get).foreach(env => Bridge.prepare(env.conf))
    extensions.injectParser { (session, parser) =>
      showClasses()
      new HeadwaterParser(session, parser)
    }
    extensions.injectHintResolutionRule(session => InlineApiViews(session))
    extensions.injectResolutionRule(session => ResolveApiColumns(session))
    extensions.injectResolutionRule(session => ResolveHeadwaterCommands(session))
    extensions.injectResolutionRule(session => ResolveHeadwaterWrites(session))
    extensions.injectResolutionRule(session => ResolveHeadwaterDml(session))
    extensions.injectResolutionRule(session => ResolveVariables(session))
    extensions.injectHintResolutionRule(session => FindChangeReads(session))
    extensions.injectResolutionRule(session => ResolveTableChanges(session))
    extensions.injectResolutionRule(session => ResolveHeadwaterRelations(session))
    extensions.injectPostHocResolutionRule(session => PlanHeadwaterDml(session))
    TableChangesFunctions.All.foreach(extensions.injectTableFunction)
    extensions.injectPreCBORule(session => PinSnapshots(session))
    extensions.injectPreCBORule(session => AggregateFromLog(session))
  }
  /**
   * The Thrift server opens a session in a thread whose class loader does not know the JARs Spark was started with, and looks for the
   * catalog with it. A session's parser is made before its catalog, in the same thread.
   */
  private def showClasses(): Unit = {
    val thread = Thread.currentThread()
    val known = try {
      thread.getContextClassLoader != null && thread.getContextClassLoader.loadClass(classOf[HeadwaterCatalog].getName) != null
    } catch { case _: ClassNotFoundException => false }
    if (!known) thread.setContextClassLoader(getClass.getClassLoader)
  }
}
