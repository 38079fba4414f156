package headwater.spark.statements

import headwater.spark.{HeadwaterCatalog, HeadwaterException}
import headwater.spark.catalog.Refusals
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{ResolvedTable, UnresolvedTable, UnresolvedTableOrView}
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.connector.catalog.Identifier
import org.apache.spark.sql.headwater.SparkInternals

/**
 * Resolves the table of a statement about a path, as Spark would. Where there is nothing, the error is the statement's, which a catalog
 * does not know.
 */
case class ResolvePathTables(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case convert @ HeadwaterStatement(ConvertedFolder.Command, table: UnresolvedTableOrView, _, _, _) =>
      convert.copy(child = ConvertedFolder.of(session, table.multipartIdentifier).getOrElse {
        resolved(table, table.multipartIdentifier, table.commandName)
      })
    case clone @ HeadwaterClone(_, table: UnresolvedTableOrView, _, _, _) =>
      val folder = ConvertedFolder.of(session, table.multipartIdentifier).filter(_.format.isDefined)
      clone.copy(source = folder.getOrElse(resolved(table, table.multipartIdentifier, table.commandName)))
    case command: Command => command.mapChildren {
        case table: UnresolvedTable => resolved(table, table.multipartIdentifier, table.commandName)
        case table: UnresolvedTableOrView => resolved(table, table.multipartIdentifier, table.commandName)
        case other => other
      }
    case other => other
  }

  private def resolved(unresolved: LogicalPlan, name: Seq[String], command: String): LogicalPlan =
    (SparkInternals.currentCatalog(session), name) match {
      case (catalog: HeadwaterCatalog, Seq(format, path)) if catalog.isPath(Identifier.of(Array(format), path)) =>
        val identifier = Identifier.of(Array(format), path)
        ResolvePathTables.open(session, path, command, unresolved.getTagValue(ResolvePathTables.Quoted).isDefined) {
          ResolvedTable.create(catalog, identifier, catalog.loadTable(identifier))
        }
      case _ => unresolved
    }
}

object ResolvePathTables {
  /** A path that a statement has in quotes, not as ``delta.`/path` ``. */
  val Quoted: TreeNodeTag[Unit] = TreeNodeTag[Unit]("headwater.quoted")

  /** What `load` finds at a path; the statement's own refusal where there is nothing. */
  def open[T](session: SparkSession, path: String, command: String, quoted: Boolean)(load: => T): T =
    try load
    catch {
      case e: HeadwaterException if e.getCondition == "PATH_NOT_FOUND" =>
        throw Refusals.nothingAtPath(path, command, quoted)
    }
}
