package headwater.spark.scan.files

import headwater.spark.scan.filters.PredicateTree
import com.fasterxml.jackson.databind.JsonNode

/**
 * The files that filters left of a table.
 *
 * @param filters what the handler was asked with
 * @param of how many files the table has
 * @param index the name of the index that chose among them
 */
final case class PrunedFiles(filters: Set[JsonNode], files: Seq[ListedFile], of: Long, index: Option[String] = None) {
  val sizeInBytes: Long = files.iterator.map(_.size).sum

  /** Those of them that are such. */
  def where(condition: ListedFile => Boolean): PrunedFiles = copy(files = files.filter(condition))

  /** Whether the handler would drop no other files for a scan under these filters. The scan applies partition filters itself. */
  def answers(asked: Seq[JsonNode]): Boolean = asked.forall(tree => filters(tree) || tree == PredicateTree.Nothing)
}
