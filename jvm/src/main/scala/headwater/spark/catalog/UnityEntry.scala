package headwater.spark.catalog

import java.util

import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.types.StructType

/** Where a table of Unity Catalog is, and what it is reached with, as properties that [[TableRegistry.entry]] reads. */
final class UnityEntry(
    ident: Identifier,
    val location: String,
    managed: Boolean,
    comment: Option[String],
    val options: Map[String, String])
    extends Table {
  override def name(): String = ident.toString

  override def schema(): StructType = new StructType()

  override def columns(): Array[Column] = Array.empty

  override def capabilities(): util.Set[TableCapability] = util.Collections.emptySet()

  override def properties(): util.Map[String, String] = {
    val out = new util.HashMap[String, String]()
    out.put(TableCatalog.PROP_PROVIDER, "delta")
    out.put(TableCatalog.PROP_LOCATION, location)
    out.put(if (managed) TableCatalog.PROP_IS_MANAGED_LOCATION else TableCatalog.PROP_EXTERNAL, "true")
    comment.foreach(out.put(TableCatalog.PROP_COMMENT, _))
    options.foreach { case (name, value) => out.put(TableCatalog.OPTION_PREFIX + name, value) }
    out
  }

  override def toString: String = name()
}
