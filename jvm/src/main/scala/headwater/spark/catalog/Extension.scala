package headwater.spark.catalog

import headwater.spark.HeadwaterException
import headwater.spark.scan.ResolveHeadwaterRelations
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.headwater.SparkInternals

/** The part of Headwater that a session cannot get once it runs. */
private[spark] object Extension {
  /** Refuses a session that was started with the JAR but without the extension; Spark would name a class of ours in its error. */
  def require(session: SparkSession): Unit =
    if (!SparkInternals.analyzer(session).extendedResolutionRules.exists(_.isInstanceOf[ResolveHeadwaterRelations])) {
      throw HeadwaterException("DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG")
    }
}
