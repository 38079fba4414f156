package headwater.spark.shims

import java.util

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.Json
import headwater.spark.bridge.messages.TableConstraint
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform

/** How Spark asks a catalog for a new table: by columns, partitions and properties. */
trait StagingShim extends NewTables {
  override def createTable(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): Table = create(ident, StagingShim.asked(columns, partitions, properties))

  override def stageCreate(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable = stage(ident, StagingShim.asked(columns, partitions, properties), "create")

  override def stageReplace(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable = stage(ident, StagingShim.asked(columns, partitions, properties), "replace")

  override def stageCreateOrReplace(
      ident: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): StagedTable =
    stage(ident, StagingShim.asked(columns, partitions, properties), "create_or_replace")
}

object StagingShim {
  /** How properties begin that are CHECK constraints: the handler writes them so (`headwater/sql/older_sparks.py`). */
  private val Constraint = "headwater.constraint."

  /** And those that are keys. */
  private val Key = "headwater.declaredKey."

  private[shims] def asked(columns: Array[Column], partitions: Array[Transform], properties: util.Map[String, String]): NewTable = {
    val (constraints, rest) = properties.asScala.toMap.partition(_._1.startsWith(Constraint))
    val (keys, others) = rest.partition(_._1.startsWith(Key))
    val checks = constraints.toSeq.map { case (key, condition) =>
      TableConstraint("check", Some(key.stripPrefix(Constraint)).filter(_.nonEmpty), Some(condition))
    }
    NewTable(columns, partitions, others.asJava, checks ++ keys.toSeq.sorted.map(key => Json.read[TableConstraint](key._2)))
  }

  /** Asks a catalog for a new table. */
  def createIn(catalog: TableCatalog, ident: Identifier, table: NewTable): Table =
    catalog.createTable(ident, table.columns, table.partitions, table.properties)
}
