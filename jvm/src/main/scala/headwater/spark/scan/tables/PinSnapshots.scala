package headwater.spark.scan.tables

import java.util.{Collections, WeakHashMap}

import scala.collection.mutable

import headwater.spark.bridge.{Bridge, SchemaText}
import headwater.spark.bridge.messages.{CheckColumnsRequest, RefreshTableRequest, RefreshTablesRequest}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.QueryPlanningTracker
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * Fixes the version that every live relation of a query reads, once, when Spark optimizes the query. So a query, with its subqueries, sees
 * one snapshot of each table, and a DataFrame that runs again sees the latest one.
 */
case class PinSnapshots(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val live = plan.collectWithSubqueries { case PinSnapshots.LiveRelation(_, _, index) => index }
    if (live.isEmpty) plan
    else {
      val states = PinSnapshots.ofThisQuery()
      def request(index: HeadwaterFileIndex) = RefreshTableRequest(index.path, index.namedVersion)
      val unknown = live.distinctBy(request).filterNot(index => states.contains(request(index)))
      val asked = unknown.map(index => (reader(index), index, request(index)))
      unknown.zip(TablesTogether.ask(asked)(RefreshTablesRequest(_))).foreach { case (index, found) =>
        states(request(index)) = TableState.of(index.path, found)
      }
      PinSnapshots.pin(plan, index => states.get(request(index)), reader)
    }
  }

  /**
   * Spark has what one session cached read again by another one, and sessions share views. If just one of the two has begun a transaction
   * over several statements, the other one reads, and so nobody sees what is not committed.
   */
  private def reader(index: HeadwaterFileIndex): SparkSession = {
    val (here, there) = (SparkInternals.transaction(session), SparkInternals.transaction(index.session))
    if (here == there || there.isEmpty) index.session
    else if (here.isEmpty) session
    else SparkInternals.outsideTransaction(session)
  }
}

object PinSnapshots {

  /** The transaction in which a session reads a live table: its own, if the index is of the same one. */
  def transaction(session: SparkSession, index: HeadwaterFileIndex): Option[String] =
    SparkInternals.transaction(session).filter(SparkInternals.transaction(index.session).contains)

  // Spark optimizes subqueries separately from the query around them, one after the other, on one thread and with one planning tracker.
  private val states = Collections.synchronizedMap(new WeakHashMap[QueryPlanningTracker, Versions]())

  /** The versions that queries read of tables. */
  type Versions = mutable.Map[RefreshTableRequest, TableState]
  def newVersions(): Versions = mutable.HashMap.empty

  private val shared = new ThreadLocal[Option[Versions]] { override def initialValue(): Option[Versions] = None }

  /**
   * The queries of `work` read each table at the version that is known, or that the first of them finds. A query of rows that Spark has
   * cached finds none: those after it also read these rows.
   */
  def sharing[T](versions: Option[Versions])(work: => T): T = {
    val before = shared.get
    shared.set(versions)
    try work
    finally shared.set(before)
  }

  /** Pins live relations to the states that are known for them. */
  def pin(
      plan: LogicalPlan,
      state: HeadwaterFileIndex => Option[TableState],
      reader: HeadwaterFileIndex => SparkSession = _.session): LogicalPlan = plan.transformWithSubqueries {
    case LiveRelation(relation, files, index) =>
      state(index).map { known =>
        if (known.hasColumnsOf(index.state))
          relation.copy(relation = index.pinned(known, files.partitionSchema, reader(index)).in(files))
        else {
          Bridge.call(reader(index), CheckColumnsRequest(index.path, index.state.tableSchema, known.tableSchema), index.tableLocation)
          redefined(relation, files, index, known, reader(index))
        }
      }.getOrElse(relation)
  }

  /** The relation with the same columns, over the files of a version that has them in other places. */
  private def redefined(
      relation: LogicalRelation,
      files: HadoopFsRelation,
      index: HeadwaterFileIndex,
      known: TableState,
      reader: SparkSession): LogicalPlan = {
    def named(fields: Iterable[StructField], name: String) = fields.find(_.name.equalsIgnoreCase(name))
    val columns = SchemaText.read(known.tableSchema)
    val partitions = StructType(known.partitionColumns.map { name =>
      named(files.schema, name).orElse(named(columns, name)).getOrElse(throw new IllegalStateException(s"no column $name"))
    })
    // Former partition columns are in the files now.
    val data = StructType(files.dataSchema ++ files.partitionSchema.filter(column =>
      named(files.dataSchema, column.name).orElse(named(partitions, column.name)).isEmpty))
    val added = SparkInternals.attributes(StructType(partitions.filter(column =>
      !relation.output.exists(_.name.equalsIgnoreCase(column.name)))))
    val columned = files.copy(partitionSchema = partitions, dataSchema = data)(files.sparkSession)
    val pinned = index.pinned(known, partitions, reader).in(columned)
    val whole = relation.copy(relation = pinned, output = relation.output ++ added)
    if (added.isEmpty) whole else Project(relation.output, whole)
  }

  private object LiveRelation {
    def unapply(plan: LogicalPlan): Option[(LogicalRelation, HadoopFsRelation, HeadwaterFileIndex)] = plan match {
      case relation @ LogicalRelation(files @ HadoopFsRelation(index: HeadwaterFileIndex, _, _, _, _, _), _, _, _, _)
          if index.isToBePinned =>
        Some((relation, files, index))
      case _ => None
    }
  }

  private def ofThisQuery(): Versions = shared.get.getOrElse(QueryPlanningTracker.get match {
    case Some(query) => states.computeIfAbsent(query, _ => newVersions())
    case None => newVersions()
  })
}
