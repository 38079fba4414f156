package headwater.spark.scan.tables

import scala.collection.mutable
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.{Bridge, TableLocation}
import headwater.spark.bridge.messages.{FileListAnswer, ScanRequest, ScanStatistics, ScansRequest}
import headwater.spark.catalog.{CatalogRelation, HeadwaterTable, SameTable}
import headwater.spark.scan.files.{FileList, ListedFile, PrunedFiles}
import headwater.spark.scan.filters.{FilterText, PredicateTree}
import headwater.spark.scan.late.LateMaterialization
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{FileIndex, FileStatusWithMetadata, HadoopFsRelation, LogicalRelation, PartitionDirectory}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat
import org.apache.spark.sql.types.StructType

/**
 * Lists a table's files for a scan. The handler prunes conservatively; partition filters are applied exactly here, because Spark does not
 * evaluate them again.
 *
 * A `live` index follows the table's latest version. [[PinSnapshots]] replaces it, once per query, with one of a fixed version.
 * [[PruneFiles]] then replaces that with one that keeps the files that its filters leave.
 */
class HeadwaterFileIndex(val indexed: IndexedFiles) extends FileIndex {
  import indexed.{numbersFiles, only, readBy}

  def session: SparkSession = indexed.session
  def path: String = state.path
  def state: TableState = indexed.state
  def live: Boolean = indexed.live
  override def partitionSchema: StructType = indexed.partitionSchema

  private val begun = readBy.getOrElse(SparkInternals.transaction(session).map((_, state.version)))

  /** What is read in a transaction is another table to Spark's caches, and another one after each statement; until it ends, if given. */
  private def transaction = begun.filter { case (id, _) => readBy.isEmpty || SparkInternals.transaction(session).contains(id) }

  def tableLocation: TableLocation = TableLocation(path, indexed.store)

  def isWholeTable: Boolean = only.isEmpty && indexed.pruned.isEmpty

  /** Whether what it lists are files of the table's version, which values may prune. */
  def mayBePruned: Boolean = !live && (only.isEmpty || indexed.valuesPrune)

  /** How many files are left of how many, for people; empty where nothing was pruned. */
  def shownFiles: String = indexed.pruned.map { found =>
    s"${found.files.size} of ${found.of} files" + found.index.map(name => s" by index $name").mkString +
      (if (indexed.marked.contains(true)) ", all with deletion vectors" else "")
  }.getOrElse("")

  /** The index of those of its files that have deletion vectors, or of the others; None unless files are known, and some are such. */
  def having(marks: Boolean): Option[HeadwaterFileIndex] = indexed.pruned.map(_.where(_.isMarked == marks)).filter(_.files.nonEmpty).map {
    some =>
      new HeadwaterFileIndex(
        indexed.copy(state = state.copy(hasDeletionVectors = marks), pruned = Some(some), marked = Some(marks)))
  }

  /**
   * A relation of the table with this index in place of its own, to be read with the columns of the index's version.
   *
   * @param late as of [[HeadwaterParquetFileFormat]], like `positionColumn`; None for those of the relation
   */
  def in(
      relation: HadoopFsRelation,
      late: Option[LateMaterialization] = None,
      positionColumn: Option[String] = None): HadoopFsRelation = {
    val format = relation.fileFormat match {
      case ours: HeadwaterParquetFileFormat => ours.reading(this, late, positionColumn)
      case other => other
    }
    relation.copy(location = this, fileFormat = format)(relation.sparkSession)
  }

  /** Whether it may list so many files. */
  def mayList(files: Int): Boolean = indexed.pruned.map(_.files.size).orElse(only.map(_.size)).forall(_ >= files)

  override def rootPaths: Seq[Path] = Seq(new Path(path))

  /** The most rows that it lists, if the handler has counted them. */
  def rows: Option[Long] = state.rows

  override def sizeInBytes: Long = indexed.pruned.map(_.sizeInBytes).getOrElse(state.sizeInBytes)

  override def refresh(): Unit = {}

  override def inputFiles: Array[String] =
    listFiles(Nil, Nil).flatMap(_.files).map(f => org.apache.spark.paths.SparkPath.fromPath(f.getPath).urlEncoded).toArray

  /** Whether a file that it lists lies in the folder of another table, as those of a shallow clone may. */
  def listsBelow(folder: String): Boolean =
    listFiles(Nil, Nil).flatMap(_.files).exists(file => SameTable.liesBelow(file.getPath, folder))

  /** The index of a fixed version, as a session sees it. */
  def pinned(state: TableState, partitions: StructType, reader: SparkSession): HeadwaterFileIndex = {
    // What ANALYZE TABLE stored is of no use for another table.
    val known = if (state.tableId == this.state.tableId) indexed.analyzed else Map.empty[String, CatalogColumnStat]
    new HeadwaterFileIndex(
      indexed.copy(
        session = reader,
        state = state,
        live = false,
        partitionSchema = partitions,
        pruned = None,
        analyzed = known,
        readBy = None))
  }

  /** Whether a query that reads it must first ask for the version to read. */
  def isToBePinned: Boolean =
    live || isWholeTable && transaction.exists { case (id, _) => !SparkInternals.transaction(session).contains(id) }

  /** Whether the transaction is the one that it reads in. */
  def readsIn(id: Option[String]): Boolean = transaction.map(_._1) == id

  /** The same index as a query reads it that runs in a transaction, with a number that tells the query from others; or in none. */
  def readIn(transaction: Option[(String, Long)]): HeadwaterFileIndex = new HeadwaterFileIndex(indexed.copy(readBy = Some(transaction)))

  /** The version that a query names; None for the newest. */
  def namedVersion: Option[Long] = Option.when(!live)(state.version)

  /** The index of the files that filters leave. A scan under the same filters, or under some of them, does not ask the handler again. */
  def pruned(filters: Seq[Expression]): HeadwaterFileIndex =
    HeadwaterFileIndex.pruned(Seq(new FilesWanted(this, filters))).head._1

  /** The index of what is wanted of it, which the handler has listed. */
  private def leaving(wanted: FilesWanted, listed: Seq[ListedFile], answer: FileListAnswer): HeadwaterFileIndex = {
    val partitions = listed.map(_.partitionValues).distinct
    // A filter may fail for a partition that another one excludes. A scan applies them all, in their order.
    val left = wanted.filters.filter(
      _.references.nonEmpty).flatMap(filter => Try(matching(filter, partitions)).toOption.flatten).map(partitions.zip(_).collect {
      case (values, true) => values
    }.toSet)
    val files = listed.filter(file => indexed.keeps(file) && left.forall(_(file.partitionValues)))
    new HeadwaterFileIndex(indexed.copy(
      pruned = Some(PrunedFiles(wanted.trees.toSet, files, answer.allFiles, answer.index)),
      readBy = None))
  }

  /** The files to list, each with its number. */
  private def numbered(filters: Seq[JsonNode]): Iterator[(ListedFile, Int)] = {
    val all = only match {
      case None => scan(filters).zipWithIndex
      case Some(given) =>
        val left = indexed.pruned.map(_.files.iterator.map(_.path).toSet)
        FileList.fromJson(given, partitionSchema.length).zipWithIndex.filter { case (file, _) => left.forall(_(file.path)) }
    }
    all.filter { case (file, _) => indexed.keeps(file) }
  }

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val predicate = partitionFilters.reduceOption(And).map(filter => Predicate.createInterpreted(bound(filter)))
    val casts = parsers
    val groups = mutable.LinkedHashMap.empty[(Seq[String], Option[Int]), mutable.ArrayBuffer[FileStatusWithMetadata]]
    numbered((partitionFilters ++ dataFilters).map(PredicateTree.of)).foreach { case (file, number) =>
      groups.getOrElseUpdate((file.partitionValues, Option.when(numbersFiles)(number)), mutable.ArrayBuffer.empty) += file.toStatus
    }
    groups.iterator.map { case ((values, number), statuses) => PartitionDirectory(row(values, casts, number), statuses.toSeq) }
      .filter(directory => predicate.forall(_.eval(directory.values))).toSeq
  }

  /** In which partitions, given by the text of their values, a condition is true; None if it needs more than partition columns. */
  def matching(condition: Expression, partitions: Seq[Seq[String]]): Option[Seq[Boolean]] = {
    val plain = FilterText.unfolded(condition)
    val columns = partitionSchema.fieldNames.map(_.toLowerCase).toSet
    val evaluable = plain.deterministic && plain.references.forall(a => columns(a.name.toLowerCase)) &&
      !plain.exists { case _: AttributeReference => false; case e => e.isInstanceOf[Unevaluable] || e.isInstanceOf[PlanExpression[_]] }
    Option.when(evaluable) {
      val predicate = Predicate.createInterpreted(bound(plain))
      val casts = parsers
      partitions.map(values => predicate.eval(row(values, casts)))
    }
  }

  private def bound(filter: Expression): Expression = filter.transform { case a: AttributeReference =>
    val i = partitionSchema.fieldNames.indexWhere(_.equalsIgnoreCase(a.name))
    // Spark takes a file's number for one more partition column, after the others.
    if (i < 0) BoundReference(partitionSchema.length, a.dataType, nullable = false)
    else BoundReference(i, SparkInternals.attributes(partitionSchema)(i).dataType, nullable = true)
  }

  private def parsers: Seq[PartitionValueParser] =
    partitionSchema.map(field => new PartitionValueParser(field, SparkInternals.conf(session).sessionLocalTimeZone))

  private def row(values: Seq[String], casts: Seq[PartitionValueParser], number: Option[Int] = None): InternalRow =
    InternalRow.fromSeq(values.zip(casts).map { case (v, parser) => parser.parse(v) } ++ number)

  protected def scan(filters: Seq[JsonNode]): Iterator[ListedFile] =
    indexed.pruned.filter(_.answers(filters)).map(_.files.iterator).getOrElse {
      val request = ScanRequest(path, state.version, Some(state.tableId), filters)
      FileList.fromAnswer(Bridge.call(session, ScansRequest(Seq(request)), tableLocation).head, partitionSchema.length)
    }

  /**
   * Whether it is of a session that has begun a transaction since. A DataFrame that has run before keeps it as part of its key, but what
   * Spark caches of it now has what the transaction did.
   */
  private def isOfBefore: Boolean = live && transaction.isEmpty && SparkInternals.transaction(session).nonEmpty

  override def equals(other: Any): Boolean = other match {
    case that: HeadwaterFileIndex if this eq that => true
    case that: HeadwaterFileIndex =>
      !isOfBefore && !that.isOfBefore &&
      path == that.path && indexed.store == that.indexed.store && state.tableId == that.state.tableId && live == that.live &&
      (live || state.version == that.state.version) && transaction == that.transaction &&
      only == that.indexed.only && indexed.marked == that.indexed.marked && prunedFiles == that.prunedFiles
    case _ => false
  }

  // One that filters have left whole is another than one that nobody has asked: Spark would keep the latter, and ask again.
  private def prunedFiles: Option[Seq[ListedFile]] = indexed.pruned.map(_.files)

  override def hashCode(): Int = path.hashCode

  override def toString: String = s"HeadwaterFileIndex($path, version ${state.version})"
}

object HeadwaterFileIndex {
  /** The index of a plan's node that reads a table's files. */
  object Of {
    def unapply(plan: LogicalPlan): Option[HeadwaterFileIndex] = plan match {
      case LogicalRelation(HadoopFsRelation(index: HeadwaterFileIndex, _, _, _, _, _), _, _, _, _) => Some(index)
      case _ => None
    }
  }

  /** For each that is wanted, the index of the files that its filters leave, with statistics of them if columns are given. */
  def pruned(wanted: Seq[FilesWanted]): Seq[(HeadwaterFileIndex, Option[ScanStatistics])] = {
    val answers = TablesTogether.ask(wanted.map(one => (one.index.session, one.index, one.request)))(ScansRequest(_))
    // A long list is in a file, which can be read once.
    val lists = new java.util.IdentityHashMap[FileListAnswer, Seq[ListedFile]]()
    wanted.zip(answers).map { case (one, answer) =>
      val listed = lists.computeIfAbsent(answer, FileList.fromAnswer(_, one.index.partitionSchema.length).toSeq)
      (one.index.leaving(one, listed, answer), answer.statistics)
    }
  }

  /** Whether an analyzed plan reads the latest version of a table, or any, in a subquery perhaps, by whatever path. */
  def isReadIn(plan: LogicalPlan, path: String, id: String, anyVersion: Boolean = false): Boolean = plan.exists {
    case Of(index) =>
      // Changes are read up to the version that was the latest when they were asked for.
      (anyVersion || index.live || index.indexed.only.nonEmpty) && SameTable(path, id, index.path, index.state.tableId)
    case CatalogRelation(table: HeadwaterTable, _, _) => SameTable(path, id, table.path, table.info.tableId)
    case other => other.subqueries.exists(isReadIn(_, path, id, anyVersion))
  }
}
