package headwater.spark

import headwater.spark.bridge.{Bridge, ClassPathCheck, Redaction}
import headwater.spark.changes.{ResolveTableChanges, TableChangesFunctions}
import headwater.spark.dml.{PlanHeadwaterDml, ResolveApiColumns, ResolveHeadwaterDml, ResolveVariables}
import headwater.spark.scan.pruning.{AggregateFromLog, PruneFiles, PruneFilesByKeys}
import headwater.spark.scan.tables.{KeyByTransaction, PinSnapshots, ResolveHeadwaterRelations}
import headwater.spark.shims.{ParserShim, SparkVersions}
import headwater.spark.statements.{
  CheckGeneratedColumns, CheckTransaction, DescribeFunction, EarlyRules, HeadwaterParser, LimitHistory, ResolveHeadwaterCommands
}
import headwater.spark.write.{JoinInserts, PlanHeadwaterReplace, PlanOptimizedWrite, ResolveHeadwaterWrites, ShuffleOnce}
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.headwater.DefaultTime
import org.apache.spark.sql.headwater.bridge.{HandlerMetrics, ProgressLine}
import org.apache.spark.sql.headwater.scan.AcceleratedScans

/** `spark.sql.extensions` names this class: it adds Headwater's parser, rules and table functions to each session. */
class HeadwaterExtension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = if (HeadwaterExtension.isFirst(extensions)) {
    HeadwaterExtension.withoutStack {
      ClassPathCheck.check(getClass.getClassLoader)
      SparkVersions.check(org.apache.spark.SPARK_VERSION)
    }
    // The handler process needs a second for its imports. It takes it while Spark itself starts.
    Option(org.apache.spark.SparkEnv.get).foreach { env =>
      Bridge.prepare(env.conf)
      Redaction.complete(env.conf)
      HandlerMetrics.register()
      ProgressLine.install(Bridge.ask(_).flatten)
    }
    extensions.injectParser { (session, parser) =>
      ensureClassLoader()
      new HeadwaterParser(session, parser)
    }
    DefaultTime.register()
    EarlyRules.All.foreach(extensions.injectHintResolutionRule)
    ParserShim.rules.foreach(extensions.injectResolutionRule)
    extensions.injectResolutionRule(session => ResolveApiColumns(session))
    extensions.injectResolutionRule(session => ResolveHeadwaterCommands(session))
    extensions.injectResolutionRule(session => ResolveHeadwaterWrites(session))
    extensions.injectResolutionRule(session => ResolveHeadwaterDml(session))
    extensions.injectResolutionRule(session => ResolveVariables(session))
    extensions.injectResolutionRule(session => ResolveTableChanges(session))
    extensions.injectResolutionRule(session => ResolveHeadwaterRelations(session))
    extensions.injectPostHocResolutionRule(session => PlanHeadwaterDml(session))
    extensions.injectPostHocResolutionRule(session => PlanHeadwaterReplace(session))
    extensions.injectPostHocResolutionRule(session => JoinInserts(session))
    extensions.injectPostHocResolutionRule(session => LimitHistory(session))
    extensions.injectPostHocResolutionRule(session => CheckTransaction(session))
    TableChangesFunctions.All.foreach(extensions.injectTableFunction)
    extensions.injectTableFunction(DescribeFunction.Entry)
    extensions.injectPlanNormalizationRule(session => KeyByTransaction(session))
    extensions.injectPlannerStrategy(_ => PlanOptimizedWrite)
    extensions.injectPlannerStrategy(session => CheckGeneratedColumns(session))
    extensions.injectPreCBORule(session => PinSnapshots(session))
    extensions.injectPreCBORule(session => AggregateFromLog(session))
    extensions.injectPreCBORule(session => PruneFiles(session))
    extensions.injectPreCBORule(_ => ShuffleOnce)
    extensions.injectQueryStageOptimizerRule(session => PruneFilesByKeys(session))
    extensions.injectQueryStagePrepRule(session => AcceleratedScans(session))
    extensions.injectColumnar(session => AcceleratedScans.BeforeOthers(session))
  }

  /**
   * The Thrift server opens a session in a thread whose context class loader lacks the JARs of `--jars`, and Spark loads the catalog with
   * that loader. Spark creates a session's parser before its catalog, in the same thread, so this sets the thread's loader in time.
   */
  private def ensureClassLoader(): Unit = {
    val thread = Thread.currentThread()
    val known = try {
      thread.getContextClassLoader != null && thread.getContextClassLoader.loadClass(classOf[HeadwaterCatalog].getName) != null
    } catch { case _: ClassNotFoundException => false }
    if (!known) thread.setContextClassLoader(getClass.getClassLoader)
  }
}

private object HeadwaterExtension {
  private val known = java.util.Collections.newSetFromMap(new java.util.WeakHashMap[SparkSessionExtensions, java.lang.Boolean])

  /** What ends a shell before it starts is shown by Java, with a page of Spark's own calls, which say nothing. */
  def withoutStack(check: => Unit): Unit =
    try check
    catch {
      case e: HeadwaterException =>
        e.setStackTrace(Array.empty)
        throw e
    }

  /** Whether these have not got ours yet: settings may name this class and a class derived from it. */
  def isFirst(extensions: SparkSessionExtensions): Boolean = known.synchronized(known.add(extensions))
}
