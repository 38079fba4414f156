package headwater.spark.catalog

import headwater.spark.HeadwaterException
import headwater.spark.scan.tables.ResolveHeadwaterRelations
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.headwater.SparkInternals

/** The two lines that a session cannot get once it runs; where one of them is missing, Spark's errors would not name it. */
private[spark] object Extension {
  private val CatalogSetting = "spark.sql.catalog.spark_catalog"

  /** Refuses a session that was started with the JAR but without the extension; Spark would name a class of ours in its error. */
  def require(session: SparkSession): Unit =
    if (!SparkInternals.analyzer(session).extendedResolutionRules.exists(_.isInstanceOf[ResolveHeadwaterRelations]))
      throw without("extension")

  /** Refuses a session with Spark's own session catalog, which can only say that it knows no way to create such a table. */
  def requireCatalog(session: SparkSession): Unit =
    if (session.conf.getOption(CatalogSetting).forall(name => name.trim.isEmpty || name == "builtin")) throw without("catalog")

  private def without(part: String): HeadwaterException =
    HeadwaterException("DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG", "missing" -> part)
}
