package headwater.spark.shims

import headwater.spark.bridge.messages.{DefinitionChange, TableConstraint}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.{TableCatalogCapability, TableChange}
import org.apache.spark.sql.connector.catalog.TableChange.UpdateColumnDefaultValue

/** What ALTER TABLE says about defaults and constraints. This Spark has no constraints: the handler parses ADD and DROP CONSTRAINT. */
object ChangeShim {
  /** What a catalog says that can have constraints. */
  val capabilities: Seq[TableCatalogCapability] = Nil

  /** A column's new default; None where it is dropped. */
  def newDefault(change: UpdateColumnDefaultValue): Option[String] = Option(change.newDefaultValue).filter(_.nonEmpty)

  /** A change of constraints; None for another. */
  def constraint(change: TableChange): Option[DefinitionChange] = None

  /** Spark's plan of ADD CONSTRAINT … CHECK: the table, and the constraint. */
  object AddedCheck {
    def unapply(plan: LogicalPlan): Option[(LogicalPlan, TableConstraint)] = None
  }
}
