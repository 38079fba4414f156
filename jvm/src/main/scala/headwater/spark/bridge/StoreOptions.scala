package headwater.spark.bridge

import java.nio.charset.StandardCharsets.UTF_8
import java.security.SecureRandom
import java.util.HexFormat
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.headwater.SparkInternals

/**
 * What the user of one table has given to reach it: the options `fs.*` and `dfs.*` of a reader, a writer or `DeltaTable.forPath`, settings
 * of Hadoop for this table alone. They are mostly credentials, so they are in no text.
 *
 * @param hadoop the options, and the settings by which Hadoop makes file systems that only those with the same options share
 * @param identity the same for equal options, in this process; empty without any
 */
final class StoreOptions private (asGiven: Map[String, String], val hadoop: Map[String, String], val identity: String) {
  def isEmpty: Boolean = hadoop.isEmpty

  /** What a catalog has given to reach its table, which goes with the table's entry: nothing of what a user gave. */
  def ofCatalog: Map[String, String] = if (managed.isDefined) asGiven else Map.empty

  /** What the handler calls the table, where a catalog manages it. */
  def managed: Option[String] = hadoop.get(StoreOptions.Managed)

  /** Hadoop's configuration as the session has it, with the options. */
  def configuration(session: SparkSession): Configuration = SparkInternals.hadoopConf(session, hadoop)

  /** These with more options, which come first. */
  def and(session: SparkSession, location: Path, options: Map[String, String]): StoreOptions =
    if (options.keysIterator.exists(StoreOptions.isOne)) StoreOptions.of(session, location, asGiven ++ StoreOptions.original(options))
    else this

  /** These with some replaced. */
  def replaced(session: SparkSession, location: Path, options: Map[String, String]): StoreOptions =
    StoreOptions.of(session, location, StoreOptions.plain(asGiven) ++ options)

  override def equals(other: Any): Boolean = other match {
    case that: StoreOptions => identity == that.identity
    case _ => false
  }

  override def hashCode(): Int = identity.hashCode

  override def toString: String = if (isEmpty) "no options" else "options"
}

object StoreOptions {
  val none = new StoreOptions(Map.empty, Map.empty, "")

  private val Identity = "fs.headwater.options"

  /** An option that no file system knows: what the handler calls a table that a catalog manages, which goes wherever the table goes. */
  private val Managed = "fs.headwater.managed"
  private val Scheme = "fs\\.([^.]+)\\.impl".r
  /** Those of connectors that Hadoop's own defaults do not name. Local files have no credentials. */
  private val Known =
    Set("s3a", "s3", "abfs", "abfss", "wasb", "wasbs", "gs", "hdfs", "webhdfs", "swebhdfs", "viewfs", "oss", "cosn", "oci")
  private val Local = "file"

  /** Identities are compared inside this process only, so they are made with a key that nobody else has. */
  private lazy val secret = {
    val bytes = new Array[Byte](32)
    new SecureRandom().nextBytes(bytes)
    new SecretKeySpec(bytes, "HmacSHA256")
  }

  /** Whether an option is one of a file system. */
  def isOne(name: String): Boolean = name.startsWith("fs.") || name.startsWith("dfs.")

  /** The options that are not of a file system: the handler learns those. */
  def others(options: Map[String, String]): Map[String, String] = original(options).filterNot { case (name, _) => isOne(name) }

  /** Of a reader's or writer's options, those of file systems, for the table at a location. */
  def of(session: SparkSession, location: Path, options: Map[String, String]): StoreOptions = {
    val chosen = original(options).filter { case (name, value) => isOne(name) && value != null }
    if (chosen.isEmpty) none
    else if (chosen.contains(Identity)) new StoreOptions(chosen, chosen, chosen(Identity))
    else if (chosen.keySet == Set(Managed)) new StoreOptions(chosen, chosen, digest(chosen.toSeq))
    else isolated(session, location, chosen)
  }

  /** What was given, of options that may have been through a plan, which has them with Hadoop's settings. */
  private def plain(options: Map[String, String]): Map[String, String] =
    if (!options.contains(Identity)) options
    else options.filterNot { case (name, value) => name.startsWith(Identity) || value == classOf[FileSystemWithOptions].getName }

  private def original(options: Map[String, String]): Map[String, String] = options match {
    case any: CaseInsensitiveMap[String] => any.originalMap
    case other => other
  }

  private def isolated(session: SparkSession, location: Path, chosen: Map[String, String]): StoreOptions = {
    val conf = SparkInternals.hadoopConf(session, chosen)
    val set = conf.getPropsWithPrefix("fs.").asScala.keys.map("fs." + _).collect { case Scheme(scheme) => scheme }
    val schemes = Known ++ set ++ Option(location.toUri.getScheme).map(_.toLowerCase) - Local
    val ours = schemes.toSeq.flatMap { scheme =>
      Seq(s"fs.$scheme.impl" -> classOf[FileSystemWithOptions].getName, s"fs.$scheme.impl.disable.cache" -> "true") ++
        Option(conf.get(s"fs.$scheme.impl")).map(s"$Identity.$scheme.impl" -> _)
    }
    // The session's own settings count as well: its next statement may have set something else.
    val sessions = SparkInternals.conf(session).getAllConfs.filter { case (name, _) => isOne(name) }
    val identity = digest((sessions ++ chosen).toSeq.sorted)
    new StoreOptions(chosen, chosen ++ ours + (Identity -> identity), identity)
  }

  private def digest(options: Seq[(String, String)]): String = {
    val mac = Mac.getInstance(secret.getAlgorithm)
    mac.init(secret)
    for ((name, value) <- options; text <- Seq(name, value)) {
      val bytes = text.getBytes(UTF_8)
      mac.update(s"${bytes.length}:".getBytes(UTF_8))
      mac.update(bytes)
    }
    HexFormat.of().formatHex(mac.doFinal())
  }

  /** The identity of the options that a configuration was made with. */
  private[bridge] def identity(conf: Configuration): String = conf.get(Identity, "")

  /** The configuration of the real file system of a scheme, made with options. */
  private[bridge] def ofRealFileSystem(scheme: String, conf: Configuration): Configuration = {
    val real = new Configuration(conf)
    Option(conf.get(s"$Identity.$scheme.impl")).fold(real.unset(s"fs.$scheme.impl"))(real.set(s"fs.$scheme.impl", _))
    real
  }
}
