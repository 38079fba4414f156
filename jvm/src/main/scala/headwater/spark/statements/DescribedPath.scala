package headwater.spark.statements

import headwater.spark.HeadwaterException
import headwater.spark.bridge.TableLocation
import headwater.spark.catalog.{Extension, HeadwaterTable}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedLeafNode

/** The path of a DESCRIBE DETAIL, which answers for a directory that is no Delta table too. */
case class DescribedPath(path: String) extends UnresolvedLeafNode

object DescribedPath {
  val Command = "describe_detail"

  private val NotDelta = Set("DELTA_TABLE_NOT_FOUND", "DELTA_EMPTY_DIRECTORY")

  /** The table at a path; None if something else is there. */
  def open(session: SparkSession, path: String): Option[HeadwaterTable] = {
    Extension.require(session)
    try ResolvePathTables.open(session, path, HeadwaterStatement.words(Command), quoted = true) {
        Some(HeadwaterTable.load(session, TableLocation(HeadwaterTable.path(session, path))))
      }
    catch { case e: HeadwaterException if NotDelta(e.getCondition) => None }
  }
}
