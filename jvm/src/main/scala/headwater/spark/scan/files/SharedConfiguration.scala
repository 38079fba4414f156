package headwater.spark.scan.files

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapred.JobConf

/**
 * The configuration that a scan's readers use. Hadoop copies it for each file, unless it is a `JobConf`: a third of what a small file costs
 * (bench case `select-files`). Readers set nothing in it but the filters they push down, which may differ between files; then each needs
 * a copy.
 */
object SharedConfiguration {
  private val Encryption = "parquet.crypto.factory.class"

  def of(conf: Configuration, hasFilters: Boolean): Configuration =
    if (hasFilters || conf.get(Encryption) != null) conf else new JobConf(conf)
}
