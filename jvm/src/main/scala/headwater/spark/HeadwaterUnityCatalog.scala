package headwater.spark

import headwater.spark.catalog.UnityTables
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * `spark.sql.catalog.NAME` names this class: the catalog NAME of a Unity Catalog server, whose managed tables are committed to through it.
 * The settings of the catalog are read with each call.
 */
class HeadwaterUnityCatalog extends HeadwaterCatalog {
  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = setDelegateCatalog(new UnityTables(name))

  override protected def defaultProvider: String = "delta"
}

object HeadwaterUnityCatalog {
  private val Prefix = "spark.sql.catalog."

  /** Whether a setting is one of a catalog of this class. */
  private[spark] def isSetting(conf: SQLConf, key: String): Boolean =
    key.startsWith(Prefix) &&
      conf.getConfString(Prefix + key.stripPrefix(Prefix).takeWhile(_ != '.'), "") == classOf[HeadwaterUnityCatalog].getName
}
