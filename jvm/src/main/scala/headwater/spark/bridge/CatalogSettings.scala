package headwater.spark.bridge

import org.apache.spark.sql.internal.SQLConf

/** The settings of catalogs whose servers the handler asks. */
private[bridge] object CatalogSettings {
  private val Prefix = "spark.sql.catalog."
  private val Asked = Seq(".HeadwaterUnityCatalog", ".UCSingleCatalog")

  /** Whether a setting is one of such a catalog. */
  def isOne(conf: SQLConf, key: String): Boolean =
    key.startsWith(Prefix) && {
      val named = conf.getConfString(Prefix + key.stripPrefix(Prefix).takeWhile(_ != '.'), "")
      Asked.exists(named.endsWith)
    }
}
