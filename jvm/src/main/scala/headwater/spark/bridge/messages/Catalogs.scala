package headwater.spark.bridge.messages

final case class ListCatalogRequest(catalog: String, schema: Option[String]) extends Call[CatalogNames]("list_catalog")

final case class CatalogNames(names: Seq[String]) extends Message

object CatalogNames {
  implicit val fromJson: FromJson[CatalogNames] = FromJson.message(in => CatalogNames(in[Seq[String]]("names")))
}

final case class FindInCatalogRequest(catalog: String, schema: String, table: String) extends Call[FoundInCatalog]("find_in_catalog")

final case class FoundInCatalog(path: Option[String]) extends Message

object FoundInCatalog {
  implicit val fromJson: FromJson[FoundInCatalog] = FromJson.message(in => FoundInCatalog(in[Option[String]]("path")))
}

final case class StageInCatalogRequest(catalog: String, schema: String, table: String) extends Call[StagedInCatalog]("stage_in_catalog")

final case class StagedInCatalog(path: String, properties: Map[String, String]) extends Message

object StagedInCatalog {
  implicit val fromJson: FromJson[StagedInCatalog] =
    FromJson.message(in => StagedInCatalog(in[String]("path"), in[Map[String, String]]("properties")))
}

final case class DropFromCatalogRequest(catalog: String, schema: String, table: String) extends Call[Boolean]("drop_from_catalog")

final case class RenameInCatalogRequest(catalog: String, schema: String, table: String, newName: String)
    extends Call[Unit]("rename_in_catalog")
