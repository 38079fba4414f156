package headwater.spark.statements

import headwater.spark.HeadwaterCatalog
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.headwater.SparkInternals

/** What CONVERT TO DELTA or CLONE names: a folder with files of a format. Without a format, the name is a path alone. */
case class ConvertedFolder(format: Option[String], path: String) extends LeafNode {
  override def output: Seq[Attribute] = Nil
}

object ConvertedFolder {
  val Command = "convert_to_delta"

  /** A view is resolved so that it is refused as one. */
  def unresolved(name: Seq[String]): LogicalPlan = UnresolvedTableOrView(name, HeadwaterStatement.words(Command), allowTempView = true)

  /** The folder that a name stands for; None for tables of a catalog, and for Delta tables by path. */
  def of(session: SparkSession, name: Seq[String]): Option[ConvertedFolder] = (SparkInternals.currentCatalog(session), name) match {
    case (_, Seq(path)) if path.contains("/") => Some(ConvertedFolder(None, path))
    case (catalog: HeadwaterCatalog, Seq(format, path)) if !format.equalsIgnoreCase("delta") && catalog.isFolder(name) =>
      Some(ConvertedFolder(Some(format), path))
    case _ => None
  }
}
