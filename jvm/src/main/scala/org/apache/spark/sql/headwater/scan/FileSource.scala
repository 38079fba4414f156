package org.apache.spark.sql.headwater.scan

import java.io.{FileNotFoundException, IOException}

import scala.jdk.CollectionConverters._

import headwater.spark.HeadwaterException
import headwater.spark.bridge.SchemaText
import headwater.spark.bridge.messages.SourceFiles
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.security.AccessControlException
import org.apache.spark.{SparkException, SparkThrowable}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.execution.datasources.{FileFormat, HadoopFsRelation, LogicalRelation, PartitioningAwareFileIndex}
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, FileTable}
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.StructType

/** The rows of files that a statement names, by Spark's own readers. */
object FileSource {
  /** Throws `HEADWATER_COPY_FILE_NOT_READ` if the reader would leave out one of the files, or read another. */
  def plan(session: SparkSession, files: SourceFiles): LogicalPlan = {
    val plan = load(session, files, files.schema.map(SchemaText.read(_)).orElse(columnsOfWhole(session, files)))
    differing(plan, files.paths).foreach(path => throw HeadwaterException("HEADWATER_COPY_FILE_NOT_READ", "path" -> path))
    plan
  }

  private def load(session: SparkSession, files: SourceFiles, schema: Option[StructType]): LogicalPlan = {
    val reader = session.read.format(files.format).options(files.options)
    schema.foreach(reader.schema(_))
    SparkInternals.logicalPlan(reader.load(files.paths.map(uri): _*))
  }

  /**
   * The columns of files of which one has wildcards in its name, if a record may be longer than a line. Spark then expands
   * them even in names that it has listed, so it gets escaped names.
   */
  private def columnsOfWhole(session: SparkSession, files: SourceFiles): Option[StructType] = {
    val asked = files.options.collectFirst { case (name, value) if name.equalsIgnoreCase("multiLine") => value }
    val isWhole = asked.map(_.equalsIgnoreCase("true")).getOrElse(files.format == "xml") && Whole(files.format)
    val asVariants = files.options.keys.exists(_.equalsIgnoreCase("singleVariantColumn"))
    if (!isWhole || asVariants || files.paths.forall(path => uri(path) == plain(path).toString)) None
    else load(session, files, Some(new StructType)).collectFirst {
      case LogicalRelation(HadoopFsRelation(index: PartitioningAwareFileIndex, _, _, _, format, options), _, _, _, _) =>
        val listed = index.allFiles().map(file =>
          new FileStatus(
            file.getLen,
            file.isDirectory,
            file.getReplication,
            file.getBlockSize,
            file.getModificationTime,
            new Path(escaped(file.getPath.toString))))
        format.inferSchema(session, options, listed)
    }.flatten
  }
  private val Whole = Set("csv", "json", "xml")

  /** The rows of several such plans: a column that one of them does not have is null, and `_metadata` stays what it is. */
  def union(session: SparkSession, plans: Seq[LogicalPlan]): LogicalPlan = {
    val hides = plans.forall(_.metadataOutput.exists(_.name == FileFormat.METADATA_NAME))
    val shown = Seq(col("*")) ++ (if (hides) Seq(col(FileFormat.METADATA_NAME)) else Nil)
    val rows = plans.map(SparkInternals.ofRows(session, _).select(shown: _*)).reduce(_.unionByName(_, allowMissingColumns = true))
    val all = SparkInternals.logicalPlan(rows)
    val (hidden, columns) = all.output.partition(column => hides && column.name == FileFormat.METADATA_NAME)
    val union = Project(columns, all)
    union.setTagValue(Project.hiddenOutputTag, hidden)
    union
  }

  /** A file that a reader leaves out, or reads unasked or twice. (It leaves out empty ones, which have no rows.) */
  private def differing(plan: LogicalPlan, paths: Seq[String]): Option[String] = {
    val index = plan.collectFirst {
      case r: LogicalRelation if r.relation.isInstanceOf[HadoopFsRelation] => r.relation.asInstanceOf[HadoopFsRelation].location
      case r: DataSourceV2Relation if r.table.isInstanceOf[FileTable] => r.table.asInstanceOf[FileTable].fileIndex
    }
    val empty = index.toSeq.collect { case i: PartitioningAwareFileIndex => i.allFiles().filter(_.getLen == 0) }.flatten
    val read = index.toSeq.flatMap(_.listFiles(Nil, Nil)).flatMap(_.files).filter(_.getLen > 0)
    val found = read.map(_.getPath.toUri.getPath)
    val wanted = paths.map(plain(_).toUri.getPath)
    val (known, asked) = (found.toSet ++ empty.map(_.getPath.toUri.getPath), wanted.toSet)
    wanted.find(!known(_)).orElse(found.find(!asked(_))).orElse(found.diff(found.distinct).headOption)
  }

  private def plain(path: String): Path = if (path.startsWith("/")) new Path("file", null, path) else new Path(path)

  /**
   * A path as the reader takes it, which would expand the wildcards in it. (Told not to, it reads the other files twice.) A plain path is a
   * local one, whatever the session's default file system is.
   */
  private def uri(path: String): String = escaped(if (path.startsWith("/")) plain(path).toString else path)

  private def escaped(path: String): String = path.replaceAll("""[\\{}\[\]*?]""", """\\$0""")

  /** The file that was damaged, as its reader says: neither one with a row that does not fit, nor one that the store did not give. */
  def damaged(error: Throwable): Option[String] = {
    val causes = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).toSeq
    val read = causes.indexWhere(e => condition(e).exists(name => Read.exists(name.startsWith)) || ofAvro(e).isDefined)
    causes.lift(read).filter(_ => !causes.drop(read + 1).exists(condition(_).isDefined) && isOfContent(causes.drop(read + 1))).flatMap {
      case e: SparkThrowable if condition(e).isDefined => e.getMessageParameters.asScala.get("path")
      case e => ofAvro(e)
    }
  }

  private def isOfContent(causes: Seq[Throwable]): Boolean =
    causes.headOption.exists(e => e.isInstanceOf[RuntimeException] || e.isInstanceOf[IOException]) &&
      !causes.exists(e => e.isInstanceOf[FileNotFoundException] || e.isInstanceOf[AccessControlException])

  /** The file whose schema Spark's package for Avro could not read: its error has no condition. */
  private def ofAvro(error: Throwable): Option[String] =
    Option(error.getMessage).filter(_ => error.isInstanceOf[SparkException]).collect { case Unread(path) => path }
  private val Unread = "Could not read file: (.+)".r

  private def condition(error: Throwable): Option[String] = error match {
    case e: SparkThrowable => Option(e.getCondition)
    case _ => None
  }

  private val Read = Seq("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER")
}
