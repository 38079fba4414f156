package org.apache.spark.sql.headwater.scan

import java.util.Locale

import headwater.spark.scan.tables.HeadwaterFileIndex
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Expression, FileSourceMetadataAttribute}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, FileSourceScanExec, ProjectExec, SparkPlan, UnionExec}
import org.apache.spark.sql.execution.datasources.PartitionDirectory
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.headwater.SparkInternals
import org.apache.spark.sql.types._

/**
 * Gives scans to Comet, if the session has it: Comet takes a scan only if its format is exactly Spark's own class. A scan gets that class
 * if it would read the same rows: without deletion vectors, columns of `_metadata`, positions, widened types and forbidden nulls. A scan
 * that Comet refuses all the same is Spark's. If some files have deletion vectors, the scan becomes the union of two, over the same
 * version and the same list of files: one of the other files, for Comet, and one of those.
 *
 * Columns of mapped tables get the names that the files have, and keep their ids, by which the plan above refers to them.
 */
case class AcceleratedScans(session: SparkSession) extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = if (!AcceleratedScans.isAccelerated(session)) plan
  else plan.transformUp { case scan: FileSourceScanExec => accelerated(scan).getOrElse(scan) }

  private def accelerated(scan: FileSourceScanExec): Option[SparkPlan] = (scan.relation.fileFormat, scan.relation.location) match {
    // A statement that numbers files reads them in tasks of its own.
    case (own: HeadwaterParquetFileFormat, index: HeadwaterFileIndex)
        if !index.indexed.numbersFiles && !index.indexed.marked.contains(true) && !hasMetadata(scan) =>
      own.plain(scan.requiredSchema).filter { case (_, mapping) => isAlike(scan, mapping.physical) }.flatMap { case (format, mapping) =>
        if (!index.state.hasDeletionVectors) Some(plain(scan, index, format, mapping))
        else index.having(marks = false).map { others =>
          val native = plain(scan, others, format, mapping)
          index.having(marks = true).map(marked => UnionExec(Seq(native, ours(scan, marked, mapping)))).getOrElse(native)
        }
      }
    case _ => None
  }

  /** The scan of files that Spark's own class reads. */
  private def plain(
      scan: FileSourceScanExec,
      index: HeadwaterFileIndex,
      format: ParquetFileFormat,
      mapping: ColumnMapping): SparkPlan = {
    def renamed(filter: Expression) = filter.transform { case column: AttributeReference => named(scan, mapping)(column) }
    // All Parquet formats are equal to Spark, which keeps a plan's node if the new one is equal: the option makes them differ.
    val relation = scan.relation.copy(
      location = new IndexOfPhysicalNames(index),
      dataSchema = mapping.physical(scan.relation.dataSchema),
      fileFormat = format,
      options = scan.relation.options + AcceleratedScans.Marked)(scan.relation.sparkSession)
    AcceleratedScans.copied(
      scan,
      "relation" -> relation,
      "output" -> scan.output.map(named(scan, mapping)),
      "requiredSchema" -> mapping.physical(scan.requiredSchema),
      "dataFilters" -> scan.dataFilters.filter(AcceleratedScans.isExact).map(renamed))
  }

  /**
   * The scan of the files with deletion vectors. Its columns are called as in [[plain]]: readers find them by their place in it. The
   * projection changes nothing, but keeps its batches from those of Comet: Comet converts some to rows as if all were its own, and
   * Comet 1.2.0 fails at a union of batches with structs that it has converted itself.
   */
  private def ours(scan: FileSourceScanExec, index: HeadwaterFileIndex, mapping: ColumnMapping): SparkPlan = {
    val output = scan.output.map(named(scan, mapping))
    ProjectExec(output, AcceleratedScans.copied(scan, "relation" -> index.in(scan.relation), "output" -> output))
  }

  /** A column with the name and the type that it has in the files. */
  private def named(scan: FileSourceScanExec, mapping: ColumnMapping)(column: Attribute): Attribute =
    if (scan.relation.partitionSchema.fieldNames.contains(column.name)) column
    else {
      val field = mapping.physical(StructType(Seq(StructField(column.name, column.dataType)))).head
      column.withName(field.name).withDataType(field.dataType)
    }

  /**
   * Whether it reads the same rows under the names of the files. Comet finds columns by name, so no column may be called there what a
   * column of the partition, or of the change feed, is called in the table. And what Comet refuses is left to Headwater's reader.
   */
  private def isAlike(scan: FileSourceScanExec, physical: StructType => StructType): Boolean = {
    val others = scan.relation.partitionSchema.fieldNames.map(_.toLowerCase(Locale.ROOT)).toSet
    def isOther(name: String) = others(name.toLowerCase(Locale.ROOT))
    val inFiles = physical(StructType(scan.relation.dataSchema.filterNot(column => isOther(column.name))))
    !inFiles.fieldNames.exists(isOther) &&
    scan.schema.forall(field => AcceleratedScans.isTaken(field.dataType))
  }

  private def hasMetadata(scan: FileSourceScanExec): Boolean = scan.output.exists {
    case FileSourceMetadataAttribute(_) => true
    case _ => false
  }
}

/**
 * The files that a scan under the names of the files reads. Its data filters mean nothing to the handler, which has pruned by them already,
 * by the table's names: one column may be called in the files as another one is in the table.
 */
private final class IndexOfPhysicalNames(index: HeadwaterFileIndex) extends HeadwaterFileIndex(index.indexed) {
  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] =
    super.listFiles(partitionFilters, Nil)
}

object AcceleratedScans {
  /** The rule as Comet's own. Spark runs rules of this kind in the order of the extensions, and Comet's plugin adds itself last. */
  case class BeforeOthers(session: SparkSession) extends ColumnarRule {
    override def preColumnarTransitions: Rule[SparkPlan] = AcceleratedScans(session)
  }

  private val Marked = "headwater.accelerated" -> "true"

  def isAccelerated(session: SparkSession): Boolean =
    session.sparkContext.conf.get("spark.plugins", "").contains("org.apache.spark.CometPlugin") &&
      SparkInternals.conf(session).getConfString("spark.comet.enabled", "true").trim.equalsIgnoreCase("true")

  /** Filters that other readers may compare with a file's statistics. Those of other types may be wrong for NaN, or in another calendar. */
  private def isExact(filter: Expression): Boolean = filter.references.forall(_.dataType match {
    case ByteType | ShortType | IntegerType | LongType | BooleanType | _: DecimalType => true
    case text: StringType => text.isUTF8BinaryCollation
    case _ => false
  })

  private def isTaken(kind: DataType): Boolean = kind match {
    case text: StringType => text.isUTF8BinaryCollation
    case struct: StructType => struct.forall(field => isTaken(field.dataType))
    case array: ArrayType => isTaken(array.elementType)
    case map: MapType => isTaken(map.keyType) && isTaken(map.valueType)
    case BooleanType | ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType | DateType | TimestampType |
        TimestampNTZType | BinaryType | _: DecimalType => true
    case _ => false
  }

  private def copied(scan: FileSourceScanExec, others: (String, AnyRef)*): SparkPlan = {
    val changed = others.toMap
    val arguments = scan.productElementNames.zip(scan.productIterator).map { case (name, value) =>
      changed.getOrElse(name, value.asInstanceOf[AnyRef])
    }
    scan.makeCopy(arguments.toArray)
  }
}
