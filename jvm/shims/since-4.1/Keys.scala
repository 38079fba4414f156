package headwater.spark.shims

import headwater.spark.bridge.messages.TableConstraint
import org.apache.spark.sql.connector.catalog.{Identifier, Table}
import org.apache.spark.sql.connector.catalog.constraints.Constraint
import org.apache.spark.sql.connector.expressions.{Expressions, NamedReference}

/** A table with keys, which Spark shows. CHECK constraints are left out, because Spark would check rows by them once more. */
trait Keys extends Table {
  protected def keys: Seq[TableConstraint]

  override def constraints(): Array[Constraint] = keys.map(Keys.constraint).toArray
}

object Keys {
  val Primary = "primary_key"
  val Foreign = "foreign_key"

  // Each has its type, as the class that both kinds extend is not public.
  private def constraint(key: TableConstraint): Constraint =
    if (key.kind == Primary) primary(key) else foreign(key)

  private def primary(key: TableConstraint): Constraint =
    Constraint.primaryKey(key.name.get, columns(key.columns)).enforced(key.enforced).rely(key.rely).build()

  private def foreign(key: TableConstraint): Constraint = {
    val table = Identifier.of(key.references.init.toArray, key.references.last)
    Constraint.foreignKey(key.name.get, columns(key.columns), table, columns(key.referenced)).enforced(false).rely(key.rely).build()
  }

  private def columns(names: Seq[String]): Array[NamedReference] =
    names.map(name => Expressions.column("`" + name.replace("`", "``") + "`")).toArray
}
