package org.apache.spark.sql.headwater.catalog

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{ExternalCatalog, ExternalCatalogWithListener}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.hive.headwater.catalog.HiveColumns
import org.apache.spark.sql.types.StructType

/** The columns of an entry of the session catalog. All are its data columns: Hive would look for partitions of others. */
object EntryColumns {
  def alter(session: SparkSession, identifier: TableIdentifier, schema: StructType): Unit = {
    val database = databaseOf(session, identifier)
    if (SparkInternals.hasHiveMetastore(session)) HiveColumns.alter(session, plain(session), database, identifier.table, schema)
    else SparkInternals.sessionCatalog(session).externalCatalog.alterTableDataSchema(database, identifier.table, schema)
  }

  /** Gives a new entry columns that Hive itself can see, where it has none: Spark registers those for itself alone. */
  def show(session: SparkSession, identifier: TableIdentifier, schema: StructType): Unit =
    if (schema.nonEmpty && SparkInternals.hasHiveMetastore(session) && HiveColumns.areChangeable(session))
      alter(session, identifier, schema)

  private def databaseOf(session: SparkSession, identifier: TableIdentifier): String =
    identifier.database.getOrElse(SparkInternals.sessionCatalog(session).getCurrentDatabase)

  private def plain(session: SparkSession): ExternalCatalog = SparkInternals.sessionCatalog(session).externalCatalog match {
    case listening: ExternalCatalogWithListener => listening.unwrapped
    case other => other
  }
}
