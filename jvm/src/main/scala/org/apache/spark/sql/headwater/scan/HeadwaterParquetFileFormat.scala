package org.apache.spark.sql.headwater.scan

import java.util.Locale

import headwater.spark.bridge.{SchemaText, TaskConfiguration}
import headwater.spark.scan.files.SharedConfiguration
import headwater.spark.scan.filters.{ExactFilters, FloatingBounds}
import headwater.spark.scan.late.{LateMaterialization, RowsAtPositions}
import headwater.spark.scan.rows.{
  DeletionVector, DeletionVectorFilter, FileRowIds, RowIndexBatches, RowIndexColumn, RowsWithoutForbiddenNulls, RowTrackingBatches,
  RowTrackingColumns
}
import headwater.spark.scan.tables.{HeadwaterFileIndex, TableState}
import headwater.spark.write.{ChangeDataWriterFactory, ForbiddenNulls, NestedFieldIds, NotingWriterFactory, NullCheckingWriterFactory}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.mapreduce.Job
import org.apache.parquet.hadoop.{ParquetInputFormat, ParquetOutputFormat}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{FileSourceConstantMetadataStructField, FileSourceGeneratedMetadataStructField}
import org.apache.spark.sql.execution.datasources.{FileFormat, OutputWriterFactory, PartitionedFile}
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFileFormat, ParquetOptions, ParquetUtils}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.{Filter, IsNotNull}
import org.apache.spark.sql.types.{LongType, StructField, StructType}
import org.apache.spark.util.SerializableConfiguration

/**
 * Spark's Parquet format for the files of a Delta table. It finds columns by their physical names or ids, leaves out the rows that deletion
 * vectors name, fills in row ids ([[RowTrackingBatches]]), and reads late columns by [[LateMaterializationReader]]. Everything else is
 * Spark's reader and writer.
 *
 * @param state the version that the columns and the deletion vectors of the files are of
 * @param late which columns a scan materializes late
 * @param positionColumn the column for the positions of rows in their file, which is none of the table's
 * @param hasChangeData whether a write has change data, and so the type of change as its last column
 * @param statistics the leaf columns whose statistics a write needs of each file
 * @param shownFiles what a plan says of the files that were left of all
 */
class HeadwaterParquetFileFormat(
    private val state: TableState,
    late: LateMaterialization = LateMaterialization.None,
    positionColumn: Option[String] = None,
    hasChangeData: Boolean = false,
    statistics: Seq[Seq[String]] = Nil,
    shownFiles: String = "")
    extends ParquetFileFormat {
  import state.{columnMappingMode => mappingMode, hasDeletionVectors, path}

  @transient private lazy val tableSchema = SchemaText.read(state.tableSchema)

  /** The columns of row tracking, which queries reach by `_metadata`; None unless it is enabled. */
  def rowTracking: Option[RowTrackingColumns] = state.rowTracking

  /** The same for the files that an index lists, whose version may have the columns under other names. */
  def reading(
      files: HeadwaterFileIndex,
      late: Option[LateMaterialization],
      positionColumn: Option[String]): HeadwaterParquetFileFormat =
    new HeadwaterParquetFileFormat(
      // A query analysed with row tracking has its columns still, should it be off since.
      files.state.copy(rowTracking = files.state.rowTracking.orElse(rowTracking)),
      late.getOrElse(this.late),
      positionColumn.orElse(this.positionColumn),
      shownFiles = files.shownFiles)

  override def equals(other: Any): Boolean = other match {
    case that: HeadwaterParquetFileFormat => path == that.state.path && state.tableSchema == that.state.tableSchema
    case _ => false
  }

  override def hashCode(): Int = path.hashCode

  /** What the plan says under `Format`, in Spark's UI as well. */
  override def toString: String = Seq(s"Delta version ${state.version}", shownFiles).filter(_.nonEmpty).mkString(", ")

  override def shortName(): String = "delta"

  override def metadataSchemaFields: Seq[StructField] = super.metadataSchemaFields ++ rowTracking.toSeq.flatMap(columns =>
    Seq(
      FileSourceGeneratedMetadataStructField(RowTrackingColumns.rowIdField, columns.rowId, LongType),
      FileSourceConstantMetadataStructField(RowTrackingColumns.baseRowIdField, LongType),
      FileSourceConstantMetadataStructField(RowTrackingColumns.defaultRowCommitVersionField, LongType),
      FileSourceGeneratedMetadataStructField(RowTrackingColumns.rowCommitVersionField, columns.rowCommitVersion, LongType)))

  override def fileConstantMetadataExtractors: Map[String, PartitionedFile => Any] = {
    def known(value: FileRowIds => Option[Long]): PartitionedFile => Any =
      _.otherConstantMetadataColumnValues.get(
        FileRowIds.MetadataKey).flatMap(ids => value(ids.asInstanceOf[FileRowIds])).map(Long.box).orNull
    super.fileConstantMetadataExtractors ++ Map(
      RowTrackingColumns.baseRowIdField -> known(_.baseRowId),
      RowTrackingColumns.defaultRowCommitVersionField -> known(_.defaultRowCommitVersion))
  }

  /**
   * Spark's own class, if it reads the same rows of files without deletion vectors, and how the columns are named in them. None if columns
   * are asked for that are in no file, nulls are refused or types are wider than a file's: other readers do not know of these.
   */
  def plain(required: StructType): Option[(ParquetFileFormat, ColumnMapping)] = {
    val generated = (positionColumn ++ Seq(RowIndexColumn.Spark, ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME))
      .exists(required.fieldNames.contains) || rowTracking.exists(_.in(required))
    val widened = state.tableSchema.contains(HeadwaterParquetFileFormat.TypeChanges)
    Option.unless(mappingMode == "id" || generated || widened || ForbiddenNulls.in(required))(
      (new ParquetFileFormat, new ColumnMapping(tableSchema, mappingMode, nestedFilters = false)))
  }

  // Batches that are filtered or have positions use other vector classes than Spark's, so generated code must not assume Spark's.
  override def vectorTypes(required: StructType, partitions: StructType, conf: SQLConf): Option[Seq[String]] =
    if (hasDeletionVectors || (positionColumn ++ Some(RowIndexColumn.Spark)).exists(required.fieldNames.contains) ||
      rowTracking.exists(_.in(required))) None
    else super.vectorTypes(required, partitions, conf)

  override def buildReaderWithPartitionValues(
      session: SparkSession,
      dataSchema: StructType,
      partitionSchema: StructType,
      requiredSchema: StructType,
      filters: Seq[Filter],
      options: Map[String, String],
      sessionConf: Configuration): PartitionedFile => Iterator[InternalRow] = {
    val hadoopConf = TaskConfiguration.of(sessionConf)
    // On a local disk, Parquet's vectored reads hand each range to a thread that may have to be started: half the time of small files.
    if (path.startsWith("/")) hadoopConf.setBooleanIfUnset(ParquetInputFormat.HADOOP_VECTORED_IO_ENABLED, false)
    val nested = session.sessionState.conf.getConf(SQLConf.NESTED_PREDICATE_PUSHDOWN_FILE_SOURCE_LIST).toLowerCase(Locale.ROOT)
    val mapping = new ColumnMapping(tableSchema, mappingMode, nested.split(",").map(_.trim).contains(shortName()))
    if (mappingMode == "id") hadoopConf.setBoolean(SQLConf.PARQUET_FIELD_ID_READ_ENABLED.key, true)
    val hasSparksName = mapping.physical(tableSchema).fieldNames.contains(RowIndexColumn.Spark)
    def inFiles(schema: StructType): StructType = RowIndexColumn.rename(mapping.physical(schema), positionColumn, hasSparksName)
    val physicalData = inFiles(dataSchema)
    val forbidsNulls = ForbiddenNulls.in(requiredSchema)
    // Spark's reader of rows fails at a null where its schema allows none.
    val asked = if (forbidsNulls) ForbiddenNulls.relaxed(inFiles(requiredSchema)).asInstanceOf[StructType] else inFiles(requiredSchema)
    val positionField = StructField(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME, LongType, nullable = true)
    // Row ids are numbered by position.
    val addsPosition = rowTracking.exists(columns => asked.fieldNames.contains(columns.rowId)) &&
      !asked.fieldNames.contains(positionField.name)
    val required = if (addsPosition) StructType(asked.fields :+ positionField) else asked
    // Of a column of row tracking, a file may hold some values only, so its statistics show nothing.
    val physicalFilters = ExactFilters.of(filters).filterNot(_.references.exists(name =>
      rowTracking.exists(_.names.exists(name.contains)))).flatMap(mapping.physical)
    // By name, if files are read by ids.
    val ids = if (mappingMode == "id") mapping.ids(physicalData) else Map.empty[String, Long]
    val batches = options.get(FileFormat.OPTION_RETURNING_BATCH).contains("true") &&
      session.sessionState.conf.parquetVectorizedReaderEnabled
    // A reader stores its schema in its configuration, so each needs one of its own. The first uses the original: copying takes time.
    val configurations = Iterator.single(hadoopConf) ++ Iterator.continually(new Configuration(hadoopConf))
    def opened(schema: StructType, pushed: Seq[Filter]): PartitionedFile => Iterator[InternalRow] = {
      val read = super.buildReaderWithPartitionValues(
        session,
        physicalData,
        partitionSchema,
        schema,
        pushed,
        options,
        SharedConfiguration.of(configurations.next(), pushed.nonEmpty))
      if (mappingMode == "id") new ByFieldIds(read) else read
    }

    def reader(schema: StructType, pushed: Seq[Filter] = physicalFilters): PartitionedFile => Iterator[InternalRow] = {
      val besideNaN = FloatingBounds.beside(pushed)
      val check = FilterCheck(meetsNaN = besideNaN.size < pushed.size, if (pushed.isEmpty) Map.empty else ids)
      val safe = if (check.ids.isEmpty) besideNaN else Nil
      if (!check.meetsNaN && check.ids.isEmpty) opened(schema, pushed)
      // Only the vectorized reader shows who wrote a file, and which columns it has.
      else if (!ParquetUtils.isBatchReadSupportedForSchema(session.sessionState.conf, StructType(schema ++ partitionSchema)))
        opened(schema, safe)
      else new CheckedFiltersReader(opened(schema, pushed), opened(schema, safe), check)
    }

    /** A reader of a schema with the column for positions: adds positions itself ([[RowIndexBatches]]) where no row is skipped. */
    def positioned(
        schema: StructType,
        position: Int,
        pushed: Seq[Filter] = physicalFilters): PartitionedFile => Iterator[InternalRow] = {
      val positionedBySpark = reader(schema, pushed)
      // A filter IS NOT NULL hardly ever skips a page.
      val selective = pushed.filterNot(_.isInstanceOf[IsNotNull])
      if (!batches || selective.nonEmpty) positionedBySpark
      else {
        val withoutPositions = reader(StructType(schema.patch(position, Nil, 1)), selective)
        (file: PartitionedFile) =>
          if (file.start > 0 || file.length < file.fileSize) positionedBySpark(file)
          else new RowIndexBatches(withoutPositions(file), position).asRows
      }
    }

    val parquet = new ParquetOptions(options, session.sessionState.conf)

    /** The same as [[positioned]], with late columns. */
    def lateMaterialized(schema: StructType, position: Int, lateColumns: Set[Int]): PartitionedFile => Iterator[InternalRow] = {
      val present = schema.indices.filterNot(lateColumns)
      // Parquet's reader takes a column that it does not read for one of nulls.
      val read = present.map(schema(_).name).toSet
      val pushed = physicalFilters.filter(_.references.forall(read))
      new LateMaterializationReader(
        schema,
        lateColumns,
        late.rowsPerValue,
        position,
        present = positioned(StructType(present.map(schema)), present.indexOf(position), pushed),
        // Under filters on late columns, it would skip rows that the other reader has.
        whole = positioned(schema, position, pushed),
        rebaseMode = parquet.datetimeRebaseModeInRead,
        conf = session.sparkContext.broadcast(new SerializableConfiguration(hadoopConf)))
    }

    val index = required.fieldNames.indexOf(ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME)
    val lateColumns = requiredSchema.indices.filter(i => late.columns.contains(requiredSchema(i).name)).toSet
    val plain =
      if (index < 0) reader(required)
      else if (batches && lateColumns.nonEmpty) lateMaterialized(required, index, lateColumns)
      else positioned(required, index)
    val live = if (!hasDeletionVectors) plain
    else {
      val added = index < 0
      val position = if (added) required.length else index
      val withIndex = if (!added) plain
      else positioned(StructType(required.fields :+ positionField), position)
      val types = (required.fields ++ partitionSchema.fields).map(_.dataType)
      val conf = session.sparkContext.broadcast(new SerializableConfiguration(hadoopConf))
      val some = Option.when(batches && RowsAtPositions.supports(required))(RowsAtPositions(
        required,
        index,
        partitionSchema,
        parquet.datetimeRebaseModeInRead,
        session.sessionState.conf.parquetVectorizedReaderBatchSize,
        parquet.ignoreCorruptFiles))
      (file: PartitionedFile) =>
        file.otherConstantMetadataColumnValues.get(DeletionVector.MetadataKey) match {
          case Some(description) =>
            val hadoop = conf.value.value
            val deleted = DeletionVector.read(description.toString, hadoop)
            val atPositions = some.flatMap(reader => deleted.few.flatMap(reader.of(file, _, hadoop)))
            atPositions.getOrElse(new DeletionVectorFilter(withIndex(file), deleted, position, dropPosition = added, types).asRows)
          case None => plain(file)
        }
    }
    val tracked = rowTracking.filter(_.in(asked)).map { columns =>
      val (rowId, rowCommitVersion) = (required.fieldNames.indexOf(columns.rowId), required.fieldNames.indexOf(columns.rowCommitVersion))
      val types = (asked.fields ++ partitionSchema.fields).map(_.dataType)
      (file: PartitionedFile) => {
        val known = file.otherConstantMetadataColumnValues.get(FileRowIds.MetadataKey).map(_.asInstanceOf[FileRowIds])
        new RowTrackingBatches(
          live(file),
          known.getOrElse(FileRowIds(None, None)),
          rowId,
          rowCommitVersion,
          index,
          addsPosition,
          types).asRows
      }
    }.getOrElse(live)
    if (!forbidsNulls) tracked
    else (file: PartitionedFile) =>
      new RowsWithoutForbiddenNulls(tracked(file), new ForbiddenNulls(requiredSchema, s"of data file ${file.urlEncodedPath}")).asRows
  }

  /**
   * Writes timestamps as microseconds, which have statistics in the footer, not as the legacy INT96. Writes statistics even if the session
   * turns them off, because the log and identity columns need them.
   */
  override def prepareWrite(session: SparkSession, job: Job, options: Map[String, String], dataSchema: StructType): OutputWriterFactory = {
    val factory = super.prepareWrite(session, job, options, dataSchema)
    job.getConfiguration.set(SQLConf.PARQUET_OUTPUT_TIMESTAMP_TYPE.key, SQLConf.ParquetOutputTimestampType.TIMESTAMP_MICROS.toString)
    job.getConfiguration.setBoolean(SQLConf.PARQUET_FIELD_ID_WRITE_ENABLED.key, true)
    HeadwaterParquetFileFormat.keepStatistics(job.getConfiguration)
    NestedFieldIds.use(job, dataSchema)
    val noting = new NotingWriterFactory(factory, statistics)
    val changes = if (hasChangeData) new ChangeDataWriterFactory(noting) else noting
    if (ForbiddenNulls.in(dataSchema)) new NullCheckingWriterFactory(changes) else changes
  }
}

object HeadwaterParquetFileFormat {
  /** What the metadata of a widened column has. */
  private val TypeChanges = "delta.typeChanges"

  /** The fields of `_metadata` that say which row a row is. */
  val RowFields: Seq[String] = Seq(RowTrackingColumns.rowIdField, RowTrackingColumns.rowCommitVersionField)

  /** Parquet's setting is for all columns; followed by the name of a column, for that one. */
  private def keepStatistics(conf: Configuration): Unit = {
    val setting = ParquetOutputFormat.STATISTICS_ENABLED
    conf.getPropsWithPrefix(setting).keySet.forEach(column => conf.setBoolean(setting + column, true))
  }
}
