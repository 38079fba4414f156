package headwater.spark.catalog

import java.util

import scala.util.control.NonFatal

import headwater.spark.bridge.TableLocation
import org.apache.hadoop.fs.Path
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.{NoSuchDatabaseException, NoSuchTableException}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.catalog.EntryColumns

/**
 * The entry of the session catalog that a statement has reached its table by.
 *
 * @param behind whether it does not say what the table is, as the statement has found both
 */
final class TableEntry(val identifier: TableIdentifier, behind: => Boolean = false) {
  lazy val isBehind: Boolean = behind
}

/**
 * Keeps entries up with their tables, for tools that know tables by the metastore alone. The log is the truth: what the metastore refuses
 * is a warning, and the statement has succeeded.
 */
object TableEntry extends Logging {
  private val Enabled = "spark.databricks.delta.catalog.update.enabled"

  /** Updates that are not tried again, as they have failed, or have not had the effect that they should have. */
  private val tried = util.Collections.newSetFromMap(new util.LinkedHashMap[Int, java.lang.Boolean] {
    override def removeEldestEntry(eldest: util.Map.Entry[Int, java.lang.Boolean]): Boolean = size > MostTried
  })
  private val MostTried = 1000

  private def isEnabled(session: SparkSession): Boolean =
    !SparkInternals.conf(session).getConfString(Enabled, "true").trim.equalsIgnoreCase("false")

  /** Makes an entry, which has the content of the table `found` as far as the metastore takes it. Returns that table if it was needed. */
  def create(session: SparkSession, entry: CatalogTable, found: => HeadwaterTable): Option[HeadwaterTable] = {
    val catalog = SparkInternals.sessionCatalog(session)
    def add(entry: CatalogTable): Unit = catalog.createTable(entry, ignoreIfExists = false, validateLocation = false)
    if (!isEnabled(session)) { add(entry); None }
    else {
      val table = found
      val content = EntryContent.of(table)
      val whole = try { add(content.in(entry, table.snapshotVersion)); true }
      catch { case NonFatal(e) => logDebug(s"an entry is tried without its columns: ${entry.identifier}", e); add(entry); false }
      unlessItFails(entry.identifier) {
        if (!whole) update(session, entry.identifier, table)
        else EntryColumns.show(session, entry.identifier, content.schema)
      }
      Some(table)
    }
  }

  /** Brings the entry of a table up to what the table is now. */
  def follow(session: SparkSession, location: TableLocation): Unit = for (entry <- location.entry if isEnabled(session))
    unlessItFails(entry.identifier)(update(session, entry.identifier, HeadwaterTable.load(session, location.copy(entry = None))))

  private def update(session: SparkSession, identifier: TableIdentifier, table: HeadwaterTable): Unit = {
    val content = EntryContent.of(table)
    for (entry <- find(session, identifier, table) if !content.isAllOf(entry)) {
      val update = (entry.identifier, entry.createTime, entry.schema, entry.comment, entry.properties, content)
      if (isFirst(update)) {
        if (entry.schema != content.schema) EntryColumns.alter(session, entry.identifier, content.schema)
        SparkInternals.sessionCatalog(session).alterTable(content.in(entry, table.snapshotVersion))
      }
    }
  }

  private def isFirst(update: Any): Boolean = tried.synchronized(tried.add(update.hashCode))

  /** The entry, unless it is another table's by now, or another catalog's. */
  private def find(session: SparkSession, identifier: TableIdentifier, table: HeadwaterTable): Option[CatalogTable] =
    try {
      Some(SparkInternals.sessionCatalog(session).getTableMetadata(identifier)).filter { entry =>
        entry.provider.exists(_.equalsIgnoreCase("delta")) &&
        TableLocation.of(session, new Path(entry.location), entry.storage.properties).path == table.path
      }
    } catch { case _: NoSuchTableException | _: NoSuchDatabaseException => None }

  private def unlessItFails(identifier: TableIdentifier)(work: => Unit): Unit =
    try work
    catch {
      case e @ (NonFatal(_) | _: InterruptedException) =>
        if (e.isInstanceOf[InterruptedException]) Thread.currentThread().interrupt()
        logDebug(s"the entry of ${identifier.unquotedString} was not updated", e)
        val reason = Iterator.iterate(e: Throwable)(_.getCause).takeWhile(_ != null).take(20).toSeq.last
        logWarning(
          s"The metastore's entry of ${identifier.unquotedString} was not brought up to date, so tools that read it may see old columns, " +
            s"comments or properties. The table itself is right. $Enabled = false turns these updates off. Reason: ${reason.getMessage}")
    }
}
