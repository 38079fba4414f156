package headwater.spark.lineage

import java.util

import scala.jdk.CollectionConverters._
import scala.jdk.OptionConverters._

import headwater.spark.bridge.Json
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/**
 * Says which tables an execution reads and writes. OpenLineage's Spark listener makes one for each execution, and calls its methods by
 * their names, so that neither JAR needs the other to be compiled.
 */
final class LineageVisitor {
  def isDefinedAt(node: Any): Boolean = node match {
    case plan: LogicalPlan => WrittenTable.of(plan).nonEmpty
    case _ => false
  }

  /**
   * The datasets of a plan, and nodes whose datasets the listener knows by itself. It asks in the same words for inputs and for outputs;
   * which of both it wants, the method says that asks.
   */
  def apply(node: Any, event: String): util.Map[String, Any] = {
    val asking = StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE).walk[util.Optional[StackWalker.StackFrame]](
      _.filter(frame => LineageVisitor.Asking(frame.getMethodName)).findFirst()).toScala
    (node, asking) match {
      case (plan: LogicalPlan, Some(frame)) if frame.getMethodName == LineageVisitor.Inputs =>
        LineageVisitor.answer(Nil, ReadTables.of(plan))
      case (plan: LogicalPlan, Some(frame)) =>
        LineageVisitor.answer(WrittenTable.of(plan).map(new Dataset(_, frame.getDeclaringClass.getClassLoader).described), Nil)
      case _ => LineageVisitor.answer(Nil, Nil)
    }
  }

  /** Of a data source alone, nothing is said: the plan that it is in says all. */
  def apply(node: Any, event: String, sqlContext: Any, parameters: Any): util.Map[String, Any] = util.Map.of()
}

private object LineageVisitor {
  val Inputs = "getInputs"
  val Asking: Set[String] = Set(Inputs, "getOutputs")

  def answer(datasets: Seq[Map[String, Any]], nodes: Seq[LogicalPlan]): util.Map[String, Any] =
    util.Map.of("datasets", Json.toJava(datasets), "delegateNodes", nodes.asJava)
}
