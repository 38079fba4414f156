package headwater.spark.scan.pruning

import org.apache.spark.sql.internal.SQLConf

/**
 * How far [[PruneFilesByKeys]] goes.
 *
 * @param fewestFiles scans of fewer files are left alone
 * @param mostKeys of a broadcast side with more keys, none is looked at
 * @param mostListed more distinct keys prune by their minimum and maximum alone
 */
final case class DynamicPruningSettings(enabled: Boolean, fewestFiles: Int, mostKeys: Int, mostListed: Int)

object DynamicPruningSettings {
  def of(conf: SQLConf): DynamicPruningSettings = DynamicPruningSettings(
    conf.getConfString("spark.databricks.optimizer.dynamicFilePruning", "true").trim.equalsIgnoreCase("true"),
    number(conf, "spark.databricks.optimizer.deltaTableFilesThreshold", 2),
    number(conf, "spark.headwater.scan.mostJoinKeys", 500000),
    number(conf, "spark.headwater.scan.mostListedJoinKeys", 2000))

  private def number(conf: SQLConf, name: String, default: Int): Int =
    conf.getConfString(name, default.toString).trim.toIntOption.getOrElse(default)
}
