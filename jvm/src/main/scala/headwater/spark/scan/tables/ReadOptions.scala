package headwater.spark.scan.tables

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import headwater.spark.bridge.{Bridge, StoreOptions}
import headwater.spark.bridge.messages.CheckReadOptionsRequest
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Has the handler check the names of a query's options: once for each set of names, and never for a path alone. */
private[spark] object ReadOptions {
  private val MostRemembered = 1000
  private val passed = ConcurrentHashMap.newKeySet[(Set[String], Boolean)]()

  /** Those of a relation: of WITH in SQL, if its table was found by a catalog. OPTIONS of a temporary view are as a DataFrame's. */
  def check(session: SparkSession, relation: DataSourceV2Relation): Unit =
    check(session, relation.options, isSql = relation.catalog.isDefined && relation.origin.sqlText.isDefined)

  def check(session: SparkSession, options: CaseInsensitiveStringMap, isSql: Boolean): Unit = if (!options.isEmpty) {
    val others = StoreOptions.others(options.asCaseSensitiveMap().asScala.toMap)
    val names = others.keySet - "path"
    if (names.nonEmpty && !passed.contains((names, isSql))) {
      Bridge.call(session, CheckReadOptionsRequest(others, isSql))
      if (passed.size >= MostRemembered) passed.clear()
      passed.add((names, isSql))
    }
  }
}
