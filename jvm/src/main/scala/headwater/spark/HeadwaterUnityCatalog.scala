package headwater.spark

import headwater.spark.catalog.UnityTables
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * `spark.sql.catalog.NAME` names this class: the catalog NAME of a Unity Catalog server, whose managed tables are committed to through it.
 * The settings of the catalog are read with each call.
 */
class HeadwaterUnityCatalog extends HeadwaterCatalog {
  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = setDelegateCatalog(new UnityTables(name))

  override protected def defaultProvider: String = "delta"
}
