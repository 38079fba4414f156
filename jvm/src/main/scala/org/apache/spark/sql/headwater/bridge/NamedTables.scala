package org.apache.spark.sql.headwater.bridge

import scala.util.Try

import headwater.spark.bridge.messages.NamedTable
import headwater.spark.catalog.HeadwaterTable
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogPlugin, Identifier, LookupCatalog, TableCatalog}

/** Delta tables by their names, with their keys. */
final class NamedTables(session: SparkSession) extends LookupCatalog {
  override protected val catalogManager: CatalogManager = session.sessionState.catalogManager

  /** The table of a name; without a schema if there is no Delta table of this name. */
  def named(name: Seq[String]): NamedTable = name match {
    case CatalogAndIdentifier(catalog: TableCatalog, ident) =>
      loaded(catalog, ident).getOrElse(NamedTable(fullName(catalog, ident)))
    case _ => NamedTable(name)
  }

  /** The Delta tables with keys of the namespace of a table. */
  def beside(name: Seq[String]): Seq[NamedTable] = name match {
    case CatalogAndIdentifier(catalog: TableCatalog, ident) =>
      Try(catalog.listTables(ident.namespace)).toOption.toSeq.flatMap(_.toSeq).flatMap(loaded(catalog, _)).filter(_.keys.nonEmpty)
    case _ => Nil
  }

  private def loaded(catalog: TableCatalog, ident: Identifier): Option[NamedTable] =
    Try(catalog.loadTable(ident)).toOption.collect { case table: HeadwaterTable =>
      NamedTable(fullName(catalog, ident), Some(table.tableSchema.json), table.info.keys, Some(table.path))
    }

  private def fullName(catalog: CatalogPlugin, ident: Identifier): Seq[String] = catalog.name +: ident.namespace.toSeq :+ ident.name
}
