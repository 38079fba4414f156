package headwater.spark.catalog

import java.nio.charset.StandardCharsets.ISO_8859_1

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** What the metastore's entry of a table has of its definition. Other tools read it; Headwater itself never does. */
final case class EntryContent(schema: StructType, comment: Option[String], properties: Map[String, String]) {
  /** Whether an entry is known to say something else. What other programs have added to it does not count. */
  def isMissingIn(entry: CatalogTable): Boolean = entry.schema != schema || entry.comment.filter(_.nonEmpty) != comment ||
    !properties.forall { case (name, value) => entry.properties.get(name).contains(value) }

  /** Whether an entry says just this. */
  def isAllOf(entry: CatalogTable): Boolean = !isMissingIn(entry) && (entry.properties -- properties.keys - EntryContent.Version).isEmpty

  /** An entry with this content. */
  def in(entry: CatalogTable, version: Long): CatalogTable =
    entry.copy(schema = schema, comment = comment, properties = properties + (EntryContent.Version -> version.toString))
}

object EntryContent {
  /** The version of the table that the entry was brought up to. */
  private val Version = "delta.lastUpdateVersion"
  private val Error = "delta.catalogUpdateError"
  private val LongestType = "spark.databricks.delta.catalog.update.longFieldTruncationThreshold"

  /** What Hive's metastore has room for, in characters. */
  private val LongestName = 256
  private val LongestValue = 4000

  /** Those that Hive keeps for itself, and gives a meaning. */
  private val hives = Set("comment", "external", "path", "numfiles", "totalsize", "numrows", "rawdatasize", "column_stats_accurate")

  def of(table: HeadwaterTable): EntryContent = {
    val obstacle = obstacleTo(table)
    EntryContent(
      if (obstacle.isEmpty) table.tableSchema else new StructType,
      table.info.description.filter(_.nonEmpty),
      table.info.properties.filter { case (name, value) => fits(name, value) } ++ obstacle.map(Error -> _))
  }

  private def fits(name: String, value: String): Boolean = name.length <= LongestName && value.length <= LongestValue &&
    !name.startsWith("spark.sql.") && !name.toLowerCase(java.util.Locale.ROOT).startsWith("transient_") &&
    !hives(name.toLowerCase(java.util.Locale.ROOT))

  /** Why the entry has no columns: wrong ones would be worse than none. Databases of metastores are Latin-1 often. */
  private def obstacleTo(table: HeadwaterTable): Option[String] = {
    val longest = scala.util.Try(SparkInternals.conf(table.session).getConfString(LongestType).trim.toInt).getOrElse(LongestValue)
    val isHives = SparkInternals.hasHiveMetastore(table.session)
    def isLatin(text: String): Boolean = text.forall(_ < 128) || ISO_8859_1.newEncoder().canEncode(text)
    table.tableSchema.fields.iterator.map(field => (field.name, field.dataType.catalogString)).collectFirst {
      case (name, text) if text.length > longest => s"The type of column $name has ${text.length} characters."
      case (name, text) if isHives && !(isLatin(name) && isLatin(text)) => "A column's name has characters that are not in ISO 8859-1."
    }
  }
}
