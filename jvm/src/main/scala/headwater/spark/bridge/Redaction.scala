package headwater.spark.bridge

import org.apache.spark.SparkConf

/**
 * Sees to it that Spark's plans, and Spark Connect's texts of requests, show no option of a file system. Spark itself leaves out the values
 * of names that look like secrets, which `fs.azure.account.key.<account>` does not. Errors show no credentials either.
 */
private[spark] object Redaction {
  private val Options = "spark.sql.redaction.options.regex"
  private val Texts = "spark.sql.redaction.string.regex"
  private val TextsOfAll = "spark.redaction.string.regex"

  private val Names = "^(fs|dfs)[.]"
  /** A map's entry in a text of Protocol Buffers. */
  private val Entries = "key:\\s*\"(fs|dfs)[.][^\"]*\"\\s+value:\\s*\"(\\\\.|[^\"\\\\])*\""

  /** For sessions that begin after this. What the settings leave out already is left out. */
  def complete(conf: SparkConf): Unit = {
    add(conf, Options, conf.get(Options, "(?i)url"), Names)
    add(conf, Texts, conf.getOption(Texts).orElse(conf.getOption(TextsOfAll)).getOrElse(""), Entries)
  }

  /** As of `headwater/basics/redaction.py`. */
  private val Login = "(?<=://)[^/@:\\s]+:(?!\\d+/)[^@\\s]+@".r

  /** The text with the credentials in its URIs replaced. */
  def withoutCredentials(text: String): String = if (text.contains("@")) Login.replaceAllIn(text, "***@") else text

  private def add(conf: SparkConf, setting: String, known: String, ours: String): Unit =
    if (!known.contains(ours)) conf.set(setting, if (known.isEmpty) ours else s"(?:$known)|$ours")
}
