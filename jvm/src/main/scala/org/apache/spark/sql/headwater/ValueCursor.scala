package org.apache.spark.sql.headwater

import java.math.BigInteger

import org.apache.parquet.bytes.ByteBufferInputStream
import org.apache.parquet.column.{ColumnDescriptor, Dictionary, Encoding, ValuesType}
import org.apache.parquet.column.page.{DataPageV1, DataPageV2, PageReader}
import org.apache.parquet.column.values.ValuesReader
import org.apache.parquet.column.values.rle.RunLengthBitPackingHybridDecoder
import org.apache.parquet.io.ParquetDecodingException
import org.apache.parquet.schema.{LogicalTypeAnnotation, MessageType, PrimitiveType, Type}

import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName._
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumnsUtils.EXISTS_DEFAULT_COLUMN_METADATA_KEY
import org.apache.spark.sql.execution.vectorized.WritableColumnVector
import org.apache.spark.sql.types._

/**
 * The values of a flat column in one row group, at rows that are asked for in ascending order; what lies between is skipped by Parquet's own
 * value readers, whatever the encoding.
 */
private[headwater] final class ValueCursor(column: ColumnDescriptor, pages: PageReader, nullable: Boolean) {
  private val dictionary: Dictionary = Option(pages.readDictionaryPage()).map(page => page.getEncoding.initDictionary(column, page)).orNull
  private var end = 0L
  /** Reads whether a row has a value; null where all have. */
  private var levels: () => Int = _

  /** The row after the one that was asked for last. */
  var following = 0L
  /** Where [[seek]] found a value, the next one to be read. */
  var values: ValuesReader = _

  /** Whether a row of the group has a value. */
  def seek(row: Long): Boolean = {
    while (row >= end) nextPage()
    val skipped = (row - following).toInt
    following = row + 1
    if (levels == null) {
      if (skipped > 0) values.skip(skipped)
      true
    } else {
      var present = 0
      var i = 0
      while (i < skipped) { present += levels(); i += 1 }
      if (present > 0) values.skip(present)
      levels() == 1
    }
  }

  private def nextPage(): Unit = {
    following = end
    pages.readPage() match {
      case page: DataPageV1 =>
        val stream = page.getBytes.toInputStream
        def leveled(encoding: Encoding, kind: ValuesType) = {
          val reader = encoding.getValuesReader(column, kind)
          reader.initFromPage(page.getValueCount, stream)
          reader
        }
        leveled(page.getRlEncoding, ValuesType.REPETITION_LEVEL)
        val defined = leveled(page.getDlEncoding, ValuesType.DEFINITION_LEVEL)
        levels = if (nullable) () => defined.readInteger() else null
        open(page.getValueEncoding, page.getValueCount, stream)
      case page: DataPageV2 =>
        levels = if (!nullable) null else {
          val defined = new RunLengthBitPackingHybridDecoder(1, page.getDefinitionLevels.toInputStream)
          () => defined.readInt()
        }
        open(page.getDataEncoding, page.getValueCount, page.getData.toInputStream)
      case _ => throw new ParquetDecodingException(s"column ${column.getPath.mkString(".")} has fewer values than its row group has rows")
    }
  }

  private def open(encoding: Encoding, count: Int, stream: ByteBufferInputStream): Unit = {
    values = if (encoding.usesDictionary) encoding.getDictionaryBasedValuesReader(column, ValuesType.VALUES, dictionary) else encoding.getValuesReader(column, ValuesType.VALUES)
    values.initFromPage(count, stream)
    end += count
  }
}

/** How a column's values get from Parquet's reader into a vector; a file that lacks the column has nulls. */
private[headwater] final class ValueReader(val column: Option[ColumnDescriptor], val put: (ValuesReader, WritableColumnVector) => Unit)

private[headwater] object ValueReader {
  private type Put = (ValuesReader, WritableColumnVector) => Unit

  /** None where the file has the column in a way that is not read here. */
  def of(field: StructField, file: MessageType, rebases: Boolean): Option[ValueReader] =
    if (!file.containsField(field.name)) {
      // Under another case, or with a value of its own for files that lack it.
      val known = file.getFields.stream.anyMatch(_.getName.equalsIgnoreCase(field.name)) || field.metadata.contains(EXISTS_DEFAULT_COLUMN_METADATA_KEY)
      Option.when(!known)(new ValueReader(None, (_, _) => ()))
    } else file.getType(file.getFieldIndex(field.name)) match {
      case stored: PrimitiveType if !stored.isRepetition(Type.Repetition.REPEATED) =>
        put(field.dataType, stored, rebases).map(new ValueReader(Some(file.getColumnDescription(Array(field.name))), _))
      case _ => None
    }

  private def put(wanted: DataType, stored: PrimitiveType, rebases: Boolean): Option[Put] = {
    val annotation = Option(stored.getLogicalTypeAnnotation)
    def signed(bits: Int) = LogicalTypeAnnotation.intType(bits, true)
    def micros(utc: Boolean) = LogicalTypeAnnotation.timestampType(utc, LogicalTypeAnnotation.TimeUnit.MICROS)
    val plain = annotation.isEmpty
    def is(expected: LogicalTypeAnnotation) = annotation.contains(expected)
    val int: Put = (values, vector) => vector.putInt(0, values.readInteger())
    val long: Put = (values, vector) => vector.putLong(0, values.readLong())
    val bytes: Put = (values, vector) => { val value = values.readBytes().getBytesUnsafe; vector.putByteArray(0, value, 0, value.length) }
    (wanted, stored.getPrimitiveTypeName) match {
      case (BooleanType, BOOLEAN) => Some((values, vector) => vector.putBoolean(0, values.readBoolean()))
      case (ByteType, INT32) if is(signed(8)) => Some((values, vector) => vector.putByte(0, values.readInteger().toByte))
      case (ShortType, INT32) if is(signed(16)) => Some((values, vector) => vector.putShort(0, values.readInteger().toShort))
      case (IntegerType, INT32) if plain || is(signed(32)) => Some(int)
      case (LongType, INT64) if plain || is(signed(64)) => Some(long)
      case (FloatType, FLOAT) => Some((values, vector) => vector.putFloat(0, values.readFloat()))
      case (DoubleType, DOUBLE) => Some((values, vector) => vector.putDouble(0, values.readDouble()))
      case (DateType, INT32) if is(LogicalTypeAnnotation.dateType()) && !rebases => Some(int)
      case (TimestampType, INT64) if is(micros(true)) && !rebases => Some(long)
      case (TimestampNTZType, INT64) if is(micros(false)) => Some(long)
      case (_: StringType, BINARY) if is(LogicalTypeAnnotation.stringType()) => Some(bytes)
      case (BinaryType, BINARY) if plain => Some(bytes)
      case (decimal: DecimalType, kind) if is(LogicalTypeAnnotation.decimalType(decimal.scale, decimal.precision)) =>
        // Vectors keep decimals by their precision, files as their writer likes.
        def whole(values: ValuesReader): Long = kind match {
          case INT32 => values.readInteger()
          case INT64 => values.readLong()
          case _ => new BigInteger(values.readBytes().getBytesUnsafe).longValue
        }
        if (decimal.precision <= Decimal.MAX_INT_DIGITS) Some((values, vector) => vector.putInt(0, whole(values).toInt))
        else if (decimal.precision <= Decimal.MAX_LONG_DIGITS) Some((values, vector) => vector.putLong(0, whole(values)))
        else Option.when(kind == FIXED_LEN_BYTE_ARRAY || kind == BINARY)(bytes)
      case _ => None
    }
  }
}
