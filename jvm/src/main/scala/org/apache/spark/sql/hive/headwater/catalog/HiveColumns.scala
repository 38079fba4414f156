package org.apache.spark.sql.hive.headwater.catalog

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalog}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.hive.HiveExternalCatalog
import org.apache.spark.sql.internal.StaticSQLConf
import org.apache.spark.sql.types._

/**
 * The columns of an entry in Hive's metastore. The entry has them twice: as a property, which every Spark reads and which takes all types,
 * and as columns of Hive's own where these can be. Spark's own way to alter them logs a page for each type that Hive does not know.
 */
object HiveColumns extends Logging {
  private val Restricts = "hive.metastore.disallow.incompatible.col.type.changes"

  /** The metastore has refused columns in the place of those that Spark registers. */
  @volatile private var isRefused = false

  /**
   * Whether the metastore may take other columns for a table than it has. By default it does not let a column's type change, and Spark
   * registers a table with a column that stands for all. One in Spark's own process is known to refuse then, and logs an error.
   */
  def areChangeable(session: SparkSession): Boolean = {
    val hadoop = SparkInternals.hadoopConf(session)
    def isEmbedded = hadoop.get("hive.metastore.uris", "").trim.isEmpty && hadoop.get("hive.metastore.client.factory.class") == null
    hadoop.get(Restricts, "true").trim.equalsIgnoreCase("false") || !isEmbedded && !isRefused
  }

  def alter(session: SparkSession, catalog: ExternalCatalog, database: String, table: String, schema: StructType): Unit = {
    val client = catalog.asInstanceOf[HiveExternalCatalog].client
    val before = client.getTable(database, table).schema
    val after = if (schema.isEmpty) HiveExternalCatalog.EMPTY_DATA_SCHEMA else schema
    val keepsTypes = extendsTypes(before, after)
    val isDone = isOfHive(after) && (keepsTypes || areChangeable(session)) && {
      try { client.alterTableDataSchema(database, table, after, property(session, schema)); true }
      catch {
        case NonFatal(e) => logDebug(s"Hive's metastore does not take the columns of $database.$table", e); false
      }
    }
    if (!isDone) {
      client.alterTableDataSchema(database, table, before, property(session, schema))
      if (!keepsTypes && isOfHive(after)) isRefused = true
    }
  }

  private def property(session: SparkSession, schema: StructType): Map[String, String] = {
    val parts = Map.newBuilder[String, String]
    CatalogTable.splitLargeTableProp(
      HiveExternalCatalog.DATASOURCE_SCHEMA,
      schema.json,
      (name, value) => parts += name -> value,
      SparkInternals.conf(session).getConf(StaticSQLConf.SCHEMA_STRING_LENGTH_THRESHOLD))
    parts.result()
  }

  private def extendsTypes(before: StructType, after: StructType): Boolean =
    before.fields.zip(after.fields).forall { case (one, other) => one.dataType == other.dataType }

  private def isOfHive(schema: StructType): Boolean = schema.fields.forall(field => isOfHive(field.name) && isOfHive(field.dataType))

  private def isOfHive(name: String): Boolean = !name.exists(",:;<>`".contains(_))

  private def isOfHive(kind: DataType): Boolean = kind match {
    case ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | _: DecimalType => true
    case BooleanType | BinaryType | DateType | TimestampType => true
    case text: StringType => text.isUTF8BinaryCollation
    case ArrayType(element, _) => isOfHive(element)
    case MapType(key, value, _) => isOfHive(key) && isOfHive(value)
    case StructType(fields) => fields.forall(field => field.name.matches("\\w+") && isOfHive(field.dataType))
    case _ => false
  }
}
