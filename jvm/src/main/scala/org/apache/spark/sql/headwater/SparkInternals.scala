package org.apache.spark.sql.headwater

import scala.util.control.NonFatal

import headwater.spark.bridge.TableLocation
import headwater.spark.shims.AnalysisShim
import headwater.spark.write.{DeclaredLengthCheck, StoreAssignment}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{functions, DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.{Analyzer, ResolveDataSource, TableOutputResolver}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, SessionCatalog}
import org.apache.spark.sql.catalyst.expressions.{
  Alias, Attribute, AttributeReference, Expression, ExtractValue, JsonToStructs, Literal, NamedExpression, OuterReference,
  SubqueryExpression
}
import org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, UnresolvedDataSource, View}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.{CharVarcharUtils, MetadataColumnHelper, QuotingUtils}
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{CatalogManager, CatalogPlugin, CatalogV2Util, Column, Table, TableCatalog, V1Table}
import org.apache.spark.sql.connector.expressions.{ClusterByTransform, FieldReference, Transform}
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.execution.{CommandExecutionMode, ExplainMode}
import org.apache.spark.sql.execution.datasources.{ApplyCharTypePadding, DataSourceStrategy, HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.V2SessionCatalog
import org.apache.spark.sql.headwater.scan.HeadwaterParquetFileFormat
import org.apache.spark.sql.internal.{SQLConf, StaticSQLConf}
import org.apache.spark.sql.types.{
  ArrayType, DataType, DayTimeIntervalType, IntegerType, LongType, MapType, StringType, StructField, StructType, UserDefinedType,
  YearMonthIntervalType
}
import org.apache.spark.unsafe.types.UTF8String

/** Small wrappers, one each, around calls of Spark that are private to its own packages. */
object SparkInternals {
  private def classic(session: SparkSession): ClassicSession = session.asInstanceOf[ClassicSession]

  def conf(session: SparkSession): SQLConf = classic(session).sessionState.conf

  /** The transaction over several statements that a session has begun. Caches are shared by sessions, and never have anything of it. */
  def transaction(session: SparkSession): Option[String] = Option(conf(session).getConfString(Transaction, null))

  /**
   * When statements of a transaction began and ended, in milliseconds since the epoch: the running statements, and the ended ones that
   * Spark's SQL tab still shows. Spark notes the settings of each statement's session.
   */
  def runsIn(session: SparkSession, transaction: String): Seq[(Long, Option[Long])] =
    classic(session).sharedState.statusStore.executionsList()
      .filter(run => Option(run.modifiedConfigs).exists(_.get(Transaction).contains(transaction))) // none yet as it begins
      .map(run => run.submissionTime -> run.completionTime.map(_.getTime))

  /**
   * One with the same settings that is in no transaction. What Spark computes in it is what it would be in the session itself: a time zone
   * tells what old partition values mean, and there may be secrets that open a store.
   */
  def outsideTransaction(session: SparkSession): SparkSession = {
    val outside = classic(session).newSession()
    val settings = conf(session).getAllConfs - Transaction
    settings.foreach { case (key, value) => conf(outside).setConfString(key, value) }
    outside
  }

  /** The setting that the handler keeps a transaction by. */
  private val Transaction = "spark.headwater.transaction"

  def hadoopConf(session: SparkSession, options: Map[String, String] = Map.empty): Configuration =
    if (options.isEmpty) classic(session).sessionState.newHadoopConf() else classic(session).sessionState.newHadoopConfWithOptions(options)

  def sessionCatalog(session: SparkSession): SessionCatalog = classic(session).sessionState.catalog

  /** Whether the session catalog's entries are in a metastore of Hive's. */
  def hasHiveMetastore(session: SparkSession): Boolean =
    session.sparkContext.getConf.get(StaticSQLConf.CATALOG_IMPLEMENTATION.key, "in-memory") == "hive"

  /** Whether a catalog is Spark's view of its session catalog. */
  def isSessionCatalog(catalog: CatalogPlugin): Boolean = catalog.isInstanceOf[V2SessionCatalog]

  /** Spark's session catalog; ours, if the settings name it. */
  def catalog(session: SparkSession): TableCatalog =
    classic(session).sessionState.catalogManager.catalog(CatalogManager.SESSION_CATALOG_NAME).asInstanceOf[TableCatalog]

  def parsedName(session: SparkSession, name: String): Seq[String] = classic(session).sessionState.sqlParser.parseMultipartIdentifier(name)

  /** The plan of a text, not analyzed. */
  def parsed(session: SparkSession, text: String): LogicalPlan = classic(session).sessionState.sqlParser.parsePlan(text)

  /** Whether each MERGE of the session may give its target new columns. */
  def autoMerge(session: SparkSession): Boolean =
    conf(session).getConfString("spark.databricks.delta.schema.autoMerge.enabled", "false").trim.equalsIgnoreCase("true")

  def currentCatalog(session: SparkSession): CatalogPlugin = classic(session).sessionState.catalogManager.currentCatalog

  def ofRows(session: SparkSession, plan: LogicalPlan): DataFrame = Dataset.ofRows(classic(session), plan)

  def logicalPlan(data: DataFrame): LogicalPlan = data.asInstanceOf[Dataset[_]].queryExecution.analyzed

  /** A statement's plan as Spark resolves it, without running it. */
  def analyzed(session: SparkSession, plan: LogicalPlan): LogicalPlan =
    classic(session).sessionState.executePlan(plan, CommandExecutionMode.SKIP).analyzed

  def analyzer(session: SparkSession): Analyzer = classic(session).sessionState.analyzer

  /** What a DataFrameReader reads, as Spark resolves it. */
  def loaded(session: SparkSession, source: UnresolvedDataSource): LogicalPlan = new ResolveDataSource(classic(session)).apply(source)

  /** Throws Spark's own error for a resolved plan that is not valid. */
  def checkAnalysis(session: SparkSession, plan: LogicalPlan): Unit = classic(session).sessionState.analyzer.checkAnalysis(plan)

  /** The plan with the current time as a constant. */
  def withCurrentTime(plan: LogicalPlan): LogicalPlan = ComputeCurrentTime(plan)

  def explain(session: SparkSession, plan: LogicalPlan, mode: String): String =
    classic(session).sessionState.executePlan(plan).explainString(ExplainMode.fromString(mode))

  /** A relation with the columns of row tracking too, under names that none of its columns has; as it is if there are no names. */
  def tracked(relation: LogicalRelation, names: Seq[String]): LogicalPlan = {
    val (extended, tracking) = withRowTracking(relation, names)
    if (tracking.isEmpty) relation else Project(relation.output ++ tracking, extended)
  }

  private def withRowTracking(relation: LogicalRelation, names: Seq[String]): (LogicalRelation, Seq[Alias]) = relation.relation match {
    case _ if names.nonEmpty && relation.output.exists(_.isMetadataCol) =>
      // Spark reads a column of a file only once: by its name, or for `_metadata`, which the statement uses.
      val metadata = relation.output.find(_.isMetadataCol).get
      (
        relation,
        HeadwaterParquetFileFormat.RowFields.zip(names).map { case (field, name) =>
          Alias(ExtractValue(metadata, Literal(field), SQLConf.get.resolver), name)()
        })
    case files @ HadoopFsRelation(_, _, _, _, format: HeadwaterParquetFileFormat, _) if names.nonEmpty =>
      val columns = format.rowTracking.toSeq.flatMap(_.names).map(name => AttributeReference(name, LongType)())
      val schema = columns.foldLeft(files.dataSchema)((all, column) => all.add(column.name, column.dataType))
      val extended = relation.copy(relation = files.copy(dataSchema = schema)(files.sparkSession), output = relation.output ++ columns)
      (extended, columns.zip(names).map { case (column, name) => Alias(column, name)() })
    case _ => (relation, Nil)
  }

  /**
   * A relation with two more columns, under names that none of its columns has: the number of each row's file, a constant of the file as
   * partition values are, and the row's position in it. Spark has positions in `_metadata` too, but builds a struct for each row before
   * filters.
   *
   * @param trackingNames those of [[tracked]]
   */
  def positioned(
      base: LogicalRelation,
      location: HadoopFsRelation,
      numberName: String,
      positionName: String,
      trackingNames: Seq[String]): LogicalPlan = {
    val (relation, tracking) = withRowTracking(base.copy(relation = location), trackingNames)
    val files = relation.relation.asInstanceOf[HadoopFsRelation]
    val number = AttributeReference(numberName, IntegerType, nullable = false)()
    val position = AttributeReference(positionName, LongType)()
    val extended = files.copy(
      partitionSchema = files.partitionSchema.add(number.name, number.dataType, nullable = false),
      dataSchema = files.dataSchema.add(position.name, position.dataType))(files.sparkSession)
    Project(
      base.output ++ Seq(number, position) ++ tracking,
      relation.copy(relation = extended, output = relation.output ++ Seq(position, number)))
  }

  /** A relation whose columns may be null, whatever its schema says. */
  def nullable(relation: LogicalRelation): LogicalRelation = {
    val files = relation.relation.asInstanceOf[HadoopFsRelation]
    relation.copy(
      relation = files.copy(dataSchema = StructType(files.dataSchema.map(_.copy(nullable = true))))(files.sparkSession),
      output = relation.output.map(_.withNullability(true)))
  }

  /** A session with the same settings, temporary views and functions, which nobody else changes. */
  def cloned(session: SparkSession): SparkSession = classic(session).cloneSession()

  /** The session itself if there are no settings that it has not; else a clone with these. */
  def having(session: SparkSession, settings: Map[String, String]): SparkSession = if (settings.isEmpty) session
  else {
    val other = cloned(session)
    settings.foreach { case (key, value) => other.conf.set(key, value) }
    other
  }

  /** Does work of a session, whose thread has none of its own. */
  def active[T](session: SparkSession)(work: => T): T = classic(session).withActive(work)

  def estimatedBytes(session: SparkSession, plan: LogicalPlan): Long =
    ofRows(session, plan).asInstanceOf[Dataset[_]].queryExecution.optimizedPlan.stats.sizeInBytes.min(Long.MaxValue).toLong

  /** Whether a name is that of a temporary view, of the session or global. */
  def isTemporaryView(session: SparkSession, name: Seq[String]): Boolean = sessionCatalog(session).isTempView(name)

  /** The plan of a DataFrame that is a temporary view. */
  def temporaryView(session: SparkSession, name: String): Option[LogicalPlan] =
    sessionCatalog(session).getRawTempView(name).flatMap(_.plan)

  /** A name's parts, with backticks where SQL needs them. */
  def quoted(parts: Seq[String]): String = parts.map(QuotingUtils.quoteIfNeeded).mkString(".")

  /** Whether files of both types are the same, whatever may be null, and however strings compare, fields are named and intervals show. */
  def isStoredAs(one: DataType, other: DataType): Boolean = (one, other) match {
    case (_: StringType, _: StringType) => true
    case (_: YearMonthIntervalType, _: YearMonthIntervalType) | (_: DayTimeIntervalType, _: DayTimeIntervalType) => true
    case (ArrayType(a, _), ArrayType(b, _)) => isStoredAs(a, b)
    case (MapType(a, x, _), MapType(b, y, _)) => isStoredAs(a, b) && isStoredAs(x, y)
    case (StructType(a), StructType(b)) => a.length == b.length && a.zip(b).forall { case (x, y) => isStoredAs(x.dataType, y.dataType) }
    case (user: UserDefinedType[_], stored) => isStoredAs(user.sqlType, stored)
    case _ => one == other
  }

  /** Whether two types differ in nothing but what may be null. */
  def isSameType(one: DataType, other: DataType): Boolean = DataTypeUtils.equalsIgnoreNullability(one, other)

  /** Whether two values of a type are equal only if they are identical. Not so for strings under other collations. */
  def comparesBytes(kind: DataType): Boolean =
    !kind.existsRecursively { case text: StringType => !text.isUTF8BinaryCollation; case _ => false }

  def isOurs(relation: LogicalRelation): Boolean = relation.relation match {
    case files: HadoopFsRelation => files.fileFormat.isInstanceOf[HeadwaterParquetFileFormat]
    case _ => false
  }

  /** Conditions over a relation with its columns named as it names them. */
  def normalized(conditions: Seq[Expression], relation: LogicalRelation): Seq[Expression] =
    DataSourceStrategy.normalizeExprs(conditions, relation.output)

  /** The columns without their declared CHAR and VARCHAR types. */
  def undeclared(columns: Seq[AttributeReference]): Seq[AttributeReference] = columns.map(CharVarcharUtils.cleanAttrMetadata)

  /**
   * A statement in which constants have the length of the CHAR columns that they are compared with, as in a query. `columns` are those of
   * the statement's target, without their types as they were declared, which `schema` has.
   */
  def withPaddedComparisons(statement: LogicalPlan, columns: Seq[AttributeReference], schema: StructType): LogicalPlan = {
    val declared = columns.flatMap { column =>
      schema.find(field => field.name == column.name && declaredType(field).isDefined).map(field => column.exprId -> field.metadata)
    }.toMap
    def each(change: AttributeReference => AttributeReference): PartialFunction[Expression, Expression] = {
      case column: AttributeReference if declared.contains(column.exprId) => change(column)
      case OuterReference(column: AttributeReference) if declared.contains(column.exprId) => OuterReference(change(column))
      case query: SubqueryExpression => query.withNewPlan(query.plan.transformAllExpressionsWithSubqueries(each(change)))
    }
    if (declared.isEmpty) statement
    else
      ApplyCharTypePadding(statement.transformExpressions(each(column => column.withMetadata(declared(column.exprId)))))
        .transformExpressions(each(column => CharVarcharUtils.cleanAttrMetadata(column)))
  }

  /** The metastore's entry behind a table of the session catalog. */
  def catalogTable(table: Table): Option[CatalogTable] = table match {
    case v1: V1Table => Some(v1.v1Table)
    case _ => None
  }

  /** Whether Spark itself asks this catalog, and not another one that wraps it. */
  def isCatalogOf(session: SparkSession, catalog: CatalogPlugin): Boolean =
    session.sessionState.catalogManager.catalog(catalog.name()) eq catalog

  def columns(schema: StructType): Array[Column] = CatalogV2Util.structTypeToV2Columns(schema)

  def schema(columns: Array[Column]): StructType = storedTypes(declaredSchema(columns))

  /** Columns with the types that they were declared with. */
  def declaredSchema(columns: Array[Column]): StructType = CatalogV2Util.v2ColumnsToStructType(columns)

  /** CHAR and VARCHAR become STRING, as they are stored, even if the session keeps them; the declared type is in the metadata. */
  def storedTypes(schema: StructType): StructType = {
    val name = "spark.sql.preserveCharVarcharTypeInfo"
    def stored = CharVarcharUtils.replaceCharVarcharWithStringInSchema(schema)
    if (SQLConf.get.getConfString(name, "false").toBoolean) {
      val replacing = SQLConf.get.clone()
      replacing.setConfString(name, "false")
      SQLConf.withExistingConf(replacing)(stored)
    } else stored
  }

  /** As [[storedTypes]]. */
  def storedType(kind: DataType): DataType = storedTypes(new StructType().add("value", kind)).head.dataType

  def clusterBy(columns: Seq[Seq[String]]): Option[Transform] =
    Option.when(columns.nonEmpty)(ClusterByTransform(columns.map(FieldReference(_))))

  /** The JSON of the columns of rows, as [[storedTypes]]. */
  def rowSchema(schema: StructType): String = storedTypes(schema).json

  /** The CHAR or VARCHAR type that a stored column was declared with. */
  def declaredType(stored: StructField): Option[String] = CharVarcharUtils.getRawTypeString(stored.metadata)

  /** A field of a table's columns with the CHAR or VARCHAR type, in its metadata, that it was declared with; None if there is none. */
  def declaredField(columns: StructType, path: Seq[String], field: StructField): Option[StructField] =
    // Spark cannot read its own text of a type that has odd names in it.
    scala.util.Try(declaredTypes(StructType(columns.filter(_.name.equalsIgnoreCase(path.head))))).toOption
      .flatMap(_.findNestedField(path, includeCollections = true))
      .map { case (_, declared) => storedTypes(StructType(Seq(field.copy(dataType = declared.dataType)))).head }
      .filter(declaredType(_).isDefined)

  /** Spark's error for a statement about a table that names a view. */
  def notATable(view: View, statement: String): Throwable =
    QueryCompilationErrors.expectTableNotViewError(view.desc.identifier.nameParts, statement, suggestAlternative = false, view)

  /** Spark's error for rows that are read from the table that they would replace. */
  def overwritesItsSource(session: SparkSession, table: TableIdentifier): Throwable =
    QueryCompilationErrors.cannotOverwriteTableThatIsBeingReadFromError(sessionCatalog(session).qualifyIdentifier(table))

  /** The inverse of [[storedTypes]]. */
  def declaredTypes(schema: StructType): StructType = CharVarcharUtils.getRawSchema(schema)

  /** The schema without NOT NULL at any depth. */
  def asNullable(schema: StructType): StructType = schema.asNullable

  def attributes(schema: StructType): Seq[AttributeReference] = DataTypeUtils.toAttributes(schema)

  /** Casts and orders a query's columns as expected, by Spark's own rules of assignment; by [[StoreAssignment]] if it `casts`. */
  def resolveOutput(
      session: SparkSession,
      table: String,
      expected: Seq[Attribute],
      query: LogicalPlan,
      byName: Boolean,
      casts: Boolean): LogicalPlan = {
    val conf = classic(session).sessionState.conf
    TableOutputResolver.suitableForByNameCheck(byName, expected, query.output)
    def resolved(conf: SQLConf) = AnalysisShim.resolveOutput(table, expected, query, byName, conf)
    (if (casts) StoreAssignment.columns(conf, query)(resolved) else resolved(conf)) match {
      case placed: Project => placed.copy(projectList = placed.projectList.map {
          case column: Alias =>
            column.withNewChildren(Seq(DeclaredLengthCheck.named(column.child, column.name))).asInstanceOf[NamedExpression]
          case column => column
        })
      case other => other
    }
  }

  /**
   * Invalidates cached queries over the table's directory. Spark computes them again; one that no longer fits the table, as a column of it
   * was renamed, is no longer cached, and the statement that changed the table has still succeeded.
   *
   * @param always even for a statement of a transaction, after which Spark does the same and would fail
   */
  def refreshCaches(session: SparkSession, table: TableLocation, always: Boolean = false): Unit =
    if (always || transaction(session).isEmpty) try {
      val caches = classic(session).sharedState.cacheManager
      // Spark would make a configuration of Hadoop to find nothing.
      if (caches.isEmpty) ()
      else if (table.store.isEmpty) caches.recacheByPath(classic(session), table.path)
      else {
        val path = new Path(table.path)
        caches.recacheByPath(classic(session), path, path.getFileSystem(table.store.configuration(session)))
      }
    } catch { case NonFatal(_) => }

  /** Drops all that is cached of queries that have this part. */
  def dropCaches(session: SparkSession, part: LogicalPlan): Unit = {
    val caches = classic(session).sharedState.cacheManager
    if (!caches.isEmpty) caches.uncacheQuery(classic(session), part, cascade = true)
  }

  /** The rows of a JSON array, typed by a schema. */
  def rows(json: String, schema: StructType, timeZone: String): Seq[InternalRow] = {
    val wrapped = StructType(Seq(StructField("rows", ArrayType(schema))))
    val text = Literal(UTF8String.fromString(s"""{"rows":$json}"""), StringType)
    val parsed = JsonToStructs(wrapped, Map("mode" -> "FAILFAST"), text, Some(timeZone))
    val row = parsed.eval(InternalRow.empty).asInstanceOf[InternalRow]
    val array = row.getArray(0)
    (0 until array.numElements()).map(i => array.getStruct(i, schema.length).copy())
  }

  /** The rows of a query, each as JSON without its nulls. */
  def json(rows: DataFrame): Seq[String] = {
    val row = functions.struct(functions.col("*"))
    // `toJSON` writes nulls if a setting asks for them.
    rows.select(functions.to_json(row, java.util.Map.of("ignoreNullFields", "true"))).collect().toSeq.map(_.getString(0))
  }

  def externalRows(json: String, schema: StructType, timeZone: String): Seq[org.apache.spark.sql.Row] = {
    val convert = CatalystTypeConverters.createToScalaConverter(schema)
    rows(json, schema, timeZone).map(convert(_).asInstanceOf[org.apache.spark.sql.Row])
  }
}
