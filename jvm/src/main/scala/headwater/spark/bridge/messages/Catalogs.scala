package headwater.spark.bridge.messages

// Written by jvm/messages.py, from headwater/bridge/messages/catalogs.py.

import headwater.spark.bridge.wire.{Call, FromJson, Message}

final case class ListCatalogRequest(catalog: String, schema: Option[String] = None) extends Call[CatalogNames]("list_catalog")

final case class CatalogNames(names: Seq[String]) extends Message

object CatalogNames {
  implicit val fromJson: FromJson[CatalogNames] = FromJson.message(in => CatalogNames(in[Seq[String]]("names")))
}

final case class FindInCatalogRequest(
    catalog: String,
    schema: String,
    table: String,
    others: Boolean) extends Call[FoundInCatalog]("find_in_catalog")

final case class FoundInCatalog(
    location: Option[String],
    managed: Boolean,
    comment: Option[String],
    options: Map[String, String]) extends Message

object FoundInCatalog {
  implicit val fromJson: FromJson[FoundInCatalog] = FromJson.message(in =>
    FoundInCatalog(
      in[Option[String]]("location"),
      in[Boolean]("managed"),
      in[Option[String]]("comment"),
      in[Map[String, String]]("options")))
}

final case class StageInCatalogRequest(catalog: String, schema: String, table: String) extends Call[FoundInCatalog]("stage_in_catalog")

final case class AddToCatalogRequest(
    catalog: String,
    schema: String,
    table: String,
    provider: String,
    location: Option[String] = None) extends Call[Unit]("add_to_catalog")

final case class DropFromCatalogRequest(catalog: String, schema: String, table: String) extends Call[Boolean]("drop_from_catalog")

final case class RenameInCatalogRequest(
    catalog: String,
    schema: String,
    table: String,
    newSchema: Option[String] = None,
    newName: String) extends Call[Unit]("rename_in_catalog")
