package headwater.spark.shims

import headwater.spark.bridge.messages.{AddConstraint => AddedConstraint, DefinitionChange, DropConstraint => DroppedConstraint}
import headwater.spark.bridge.messages.TableConstraint
import org.apache.spark.sql.catalyst.plans.logical.{AddCheckConstraint, Filter, LogicalPlan}
import org.apache.spark.sql.connector.catalog.{TableCatalogCapability, TableChange}
import org.apache.spark.sql.connector.catalog.TableChange.{AddConstraint, DropConstraint, UpdateColumnDefaultValue}
import org.apache.spark.sql.connector.catalog.constraints.{Check, Constraint, ForeignKey, PrimaryKey}
import org.apache.spark.sql.connector.expressions.NamedReference

/** What ALTER TABLE says about defaults and constraints. */
object ChangeShim {
  /** What a catalog says that can have constraints. */
  val capabilities: Seq[TableCatalogCapability] = Seq(TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT)

  /** A column's new default; None where it is dropped. */
  def newDefault(change: UpdateColumnDefaultValue): Option[String] = Option(change.newCurrentDefault).map(_.getSql)

  /** A change of constraints; None for another. */
  def constraint(change: TableChange): Option[DefinitionChange] = change match {
    case add: AddConstraint => Some(AddedConstraint(described(add.constraint)))
    case drop: DropConstraint => Some(DroppedConstraint(drop.name, drop.ifExists, cascade = drop.mode == DropConstraint.Mode.CASCADE))
    case _ => None
  }

  def described(constraint: Constraint): TableConstraint = constraint match {
    case check: Check => TableConstraint("check", Option(check.name()), Option(check.predicateSql()))
    case key: PrimaryKey =>
      TableConstraint(Keys.Primary, Option(key.name()), columns = names(key.columns), rely = key.rely)
    case key: ForeignKey =>
      val references = key.referencedTable.namespace.toSeq :+ key.referencedTable.name
      TableConstraint(
        Keys.Foreign,
        Option(key.name()),
        columns = names(key.columns),
        references = references,
        referenced = names(key.referencedColumns),
        rely = key.rely)
    case other => TableConstraint(other.toDDL, Option(other.name()), None)
  }

  private def names(columns: Array[NamedReference]): Seq[String] = columns.toSeq.map(_.fieldNames.mkString("."))

  /** Spark's plan of ADD CONSTRAINT … CHECK: the table, and the constraint. */
  object AddedCheck {
    def unapply(plan: LogicalPlan): Option[(LogicalPlan, TableConstraint)] = plan match {
      case AddCheckConstraint(Filter(_, table), check) => Some((table, TableConstraint("check", Some(check.name), Some(check.condition))))
      case _ => None
    }
  }
}
