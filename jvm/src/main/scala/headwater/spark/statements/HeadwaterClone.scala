package headwater.spark.statements

import com.fasterxml.jackson.databind.JsonNode
import org.apache.spark.sql.catalyst.analysis.PlanWithUnresolvedIdentifier
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{BinaryCommand, CreateTable, LogicalPlan, ReplaceTable, TableSpecBase}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/**
 * A CLONE that the handler parsed: what it is to be made of, the table `source`, and the name of the new table, `target`. Spark has not
 * resolved either yet. `arguments` is the handler's own JSON.
 */
case class HeadwaterClone(target: LogicalPlan, source: LogicalPlan, creates: HeadwaterClone.NewTable, arguments: JsonNode, rows: StructType)
    extends BinaryCommand {
  override def left: LogicalPlan = target
  override def right: LogicalPlan = source
  override def output: Seq[Attribute] = SparkInternals.attributes(rows)
  override def nodeName: String = HeadwaterClone.Words
  override def simpleString(maxFields: Int): String = nodeName
  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): LogicalPlan =
    copy(target = newLeft, source = newRight)
}

object HeadwaterClone {
  val Words = "CLONE"

  /** How the new table is made: `mode` as of a [[headwater.spark.bridge.messages.CloneRequest]]. */
  case class NewTable(mode: String, ifNotExists: Boolean, properties: Map[String, String], location: Option[String])

  /** Takes a CREATE TABLE or REPLACE TABLE that Spark parsed apart: the name of the new table, and how it is made. */
  def newTable(plan: LogicalPlan): (LogicalPlan, NewTable) = plan match {
    case create: CreateTable => (create.name, newTable("create", create.ignoreIfExists, create.tableSpec))
    case replace: ReplaceTable =>
      (replace.name, newTable(if (replace.orCreate) "create_or_replace" else "replace", ifNotExists = false, replace.tableSpec))
    // Before Spark 4.2, all of a CREATE TABLE IDENTIFIER(…) waits for the name.
    case late: PlanWithUnresolvedIdentifier =>
      def create(name: Seq[String]) = newTable(late.planBuilder(name, late.children))
      (PlanWithUnresolvedIdentifier(late.identifierExpr, Nil, (name, _) => create(name)._1), create(Seq(Words))._2)
    case other => throw new IllegalStateException(s"no CREATE TABLE: ${other.nodeName}")
  }

  private def newTable(mode: String, ifNotExists: Boolean, spec: TableSpecBase): NewTable =
    NewTable(mode, ifNotExists, spec.properties, spec.location)
}
