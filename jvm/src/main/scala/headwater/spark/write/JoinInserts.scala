package headwater.spark.write

import scala.jdk.CollectionConverters._

import headwater.spark.HeadwaterException
import headwater.spark.catalog.{CatalogRelation, HeadwaterTable, SameTable}
import headwater.spark.scan.tables.PinSnapshots
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Alias
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.InsertIntoDataSourceDirCommand
import org.apache.spark.sql.execution.datasources.InsertIntoDataSourceCommand
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Makes one write of the INSERTs into one table in a statement with several (`FROM … INSERT INTO t … INSERT INTO t …`). Spark runs the
 * commands of such a statement one after the other, each with a commit of its own, and the later ones would read what the first one wrote.
 * So those that are left read the versions from before the statement, and what cannot do so is refused.
 */
case class JoinInserts(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case union: Union if union.children.size > 1 && union.children.forall(_.resolved) && union.children.exists(table(_).isDefined) =>
      joined(union)
  }

  private def table(write: LogicalPlan): Option[HeadwaterTable] = write match {
    case replace: HeadwaterReplaceCommand => Some(replace.table)
    case other => target(other).map(_.table)
  }

  private def target(write: LogicalPlan): Option[WriteTarget] = write match {
    case write: V2WriteCommand => write.table match {
        case CatalogRelation(target: WriteTarget, _, _) => Some(target)
        case _ => None
      }
    case _ => None
  }

  private def joined(union: Union): LogicalPlan = {
    val writes = union.children.foldLeft(Vector.empty[LogicalPlan]) { (before, write) =>
      val last = before.lastIndexWhere(isSameTable(_, write))
      before.lift(last).flatMap(both(_, write)).map(before.updated(last, _)).getOrElse(before :+ write)
    }
    if (writes.size == 1) writes.head
    else {
      for (position <- writes.indices; earlier <- writes.take(position)) check(earlier, writes(position))
      union.copy(children = writes.map(pinned))
    }
  }

  private def isSameTable(one: LogicalPlan, other: LogicalPlan): Boolean =
    table(one).isDefined && table(one).map(_.path) == table(other).map(_.path)

  private def check(earlier: LogicalPlan, write: LogicalPlan): Unit = table(earlier).foreach { written =>
    val readsWritten = write match {
      case replace: HeadwaterReplaceCommand => replace.pieces.readsElsewhere(written)
      // Spark could read the version from before, but the handler would take the earlier write for one of another statement.
      case other => target(other).exists(own =>
          own.readsTable && SameTable(written.path, written.info.tableId, own.table.path, own.table.info.tableId))
    }
    if (readsWritten) throw HeadwaterException("HEADWATER_INSERTS_OF_OWN_ROWS", "tableName" -> written.name())
    if (isSameTable(earlier, write)) identity(write).filter(identity(earlier).contains).foreach { case (application, version) =>
      throw HeadwaterException(
        "HEADWATER_INSERTS_OF_ONE_TXN_VERSION",
        "tableName" -> written.name(),
        "txnAppId" -> application,
        "txnVersion" -> version)
    }
  }

  /** By what the table knows whether it has a write already. */
  private def identity(write: LogicalPlan): Option[(String, String)] = {
    val options = new CaseInsensitiveStringMap((write match {
      case replace: HeadwaterReplaceCommand => replace.options
      case append: AppendData => append.writeOptions
      case overwrite: OverwriteByExpression => overwrite.writeOptions
      case _ => Map.empty[String, String]
    }).asJava)
    def named(name: String) = Option(options.get(name)).orElse(
      Option(SparkInternals.conf(session).getConfString(s"spark.databricks.delta.write.$name", null)))
    named("txnAppId").zip(named("txnVersion"))
  }

  /** The write of rows of the versions from before the statement. */
  private def pinned(write: LogicalPlan): LogicalPlan = {
    val pin = PinSnapshots(session)
    write match {
      case insert: InsertIntoDataSourceCommand => insert.copy(query = pin(insert.query))
      case insert: InsertIntoDataSourceDirCommand => insert.copy(query = pin(insert.query))
      case other => pin(other)
    }
  }

  /** Two appends as one. */
  private def both(one: LogicalPlan, other: LogicalPlan): Option[LogicalPlan] = (one, other) match {
    case (first: AppendData, second: AppendData)
        if !isUpsert(first) && first.writeOptions == second.writeOptions && hasSameColumns(first.query, second.query) =>
      val rows = Union(renewed(first.query), renewed(second.query))
      val relation = first.table.asInstanceOf[DataSourceV2Relation]
      Some(first.copy(table = relation.copy(table = target(first).get.of(rows)), query = rows))
    case _ => None
  }

  /** One upsert with the rows of two would refuse a key that both have; one after the other, the later row is the one that stays. */
  private def isUpsert(write: AppendData): Boolean = write.writeOptions.keys.exists(_.equalsIgnoreCase("idCols"))

  private def hasSameColumns(one: LogicalPlan, other: LogicalPlan): Boolean = one.output.size == other.output.size &&
    one.output.zip(other.output).forall { case (a, b) => a.name == b.name && SparkInternals.isSameType(a.dataType, b.dataType) }

  /** The same rows: both queries may have the columns of one source. */
  private def renewed(query: LogicalPlan): LogicalPlan = Project(query.output.map(column => Alias(column, column.name)()), query)
}
