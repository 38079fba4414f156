package headwater.spark.bridge

import org.apache.spark.SparkConf
import org.apache.spark.sql.internal.SQLConf

/** The settings of catalogs whose servers the handler asks. */
private[bridge] object CatalogSettings {
  private val Prefix = "spark.sql.catalog."
  private val Asked = Seq(".HeadwaterUnityCatalog", ".UCSingleCatalog")

  /** Where a catalog is, and what logs in there. */
  private val Addresses = Seq("uri", "auth.oauth.uri")
  private val Secrets = Seq("token", "auth.token", "auth.oauth.clientSecret")

  /**
   * Whether a setting is one of such a catalog that the handler gets. A secret of the application goes to the application's addresses only:
   * a session that sets another address must also set its secret.
   */
  def isOne(conf: SQLConf, application: => SparkConf, key: String): Boolean =
    key.startsWith(Prefix) && {
      val catalog = Prefix + key.stripPrefix(Prefix).takeWhile(_ != '.')
      val named = conf.getConfString(catalog, "")
      Asked.exists(named.endsWith) && !(Secrets.exists(secret => key == s"$catalog.$secret") && isMoved(conf, application, catalog, key))
    }

  private def isMoved(conf: SQLConf, application: SparkConf, catalog: String, secret: String): Boolean =
    application.getOption(secret).contains(conf.getConfString(secret, "")) && Addresses.map(address => s"$catalog.$address").exists {
      address => application.get(address, "") != conf.getConfString(address, "")
    }
}
