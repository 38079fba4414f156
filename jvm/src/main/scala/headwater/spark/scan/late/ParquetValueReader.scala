package headwater.spark.scan.late

import java.math.BigInteger

import org.apache.parquet.column.ColumnDescriptor
import org.apache.parquet.column.values.ValuesReader
import org.apache.parquet.schema.{LogicalTypeAnnotation, MessageType, PrimitiveType, Type}
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName._
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumnsUtils.EXISTS_DEFAULT_COLUMN_METADATA_KEY
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils
import org.apache.spark.sql.execution.vectorized.WritableColumnVector
import org.apache.spark.sql.types._

/**
 * Puts a column's next value from Parquet's reader into a row of a vector. `column` is None if the file lacks the column: its values are
 * null.
 */
private[headwater] final class ParquetValueReader(val column: Option[ColumnDescriptor], val put: ParquetValueReader.Put)

private[headwater] object ParquetValueReader {
  type Put = (ValuesReader, WritableColumnVector, Int) => Unit

  /** None if the file stores the column in a way that only Spark's reader supports. */
  def of(field: StructField, file: MessageType, rebases: Boolean): Option[ParquetValueReader] = {
    val id = Option.when(ParquetUtils.hasFieldId(field))(ParquetUtils.getFieldId(field))
    def hasId(stored: Type) = Option(stored.getId).exists(found => id.contains(found.intValue))
    if (!file.containsField(field.name)) {
      // Spark's reader also finds a name in another case, a column by its id, and knows default values of files that lack a column.
      val known = file.getFields.stream.anyMatch(stored => stored.getName.equalsIgnoreCase(field.name) || hasId(stored)) ||
        field.metadata.contains(EXISTS_DEFAULT_COLUMN_METADATA_KEY)
      Option.when(!known)(new ParquetValueReader(None, (_, _, _) => ()))
    } else file.getType(file.getFieldIndex(field.name)) match {
      // A column that is found by its id may have the name of another one in the file.
      case stored: PrimitiveType if !stored.isRepetition(Type.Repetition.REPEATED) && (id.isEmpty || hasId(stored)) =>
        put(field.dataType, stored, rebases).map(new ParquetValueReader(Some(file.getColumnDescription(Array(field.name))), _))
      case _ => None
    }
  }

  private def put(wanted: DataType, stored: PrimitiveType, rebases: Boolean): Option[Put] = {
    val annotation = Option(stored.getLogicalTypeAnnotation)
    def signed(bits: Int) = LogicalTypeAnnotation.intType(bits, true)
    def micros(utc: Boolean) = LogicalTypeAnnotation.timestampType(utc, LogicalTypeAnnotation.TimeUnit.MICROS)
    val plain = annotation.isEmpty
    def is(expected: LogicalTypeAnnotation) = annotation.contains(expected)
    val int: Put = (values, vector, row) => vector.putInt(row, values.readInteger())
    val long: Put = (values, vector, row) => vector.putLong(row, values.readLong())
    val bytes: Put =
      (values, vector, row) => { val value = values.readBytes().getBytesUnsafe; vector.putByteArray(row, value, 0, value.length) }
    (wanted, stored.getPrimitiveTypeName) match {
      case (BooleanType, BOOLEAN) => Some((values, vector, row) => vector.putBoolean(row, values.readBoolean()))
      case (ByteType, INT32) if is(signed(8)) => Some((values, vector, row) => vector.putByte(row, values.readInteger().toByte))
      case (ShortType, INT32) if is(signed(16)) => Some((values, vector, row) => vector.putShort(row, values.readInteger().toShort))
      case (IntegerType, INT32) if plain || is(signed(32)) => Some(int)
      case (LongType, INT64) if plain || is(signed(64)) => Some(long)
      case (FloatType, FLOAT) => Some((values, vector, row) => vector.putFloat(row, values.readFloat()))
      case (DoubleType, DOUBLE) => Some((values, vector, row) => vector.putDouble(row, values.readDouble()))
      case (DateType, INT32) if is(LogicalTypeAnnotation.dateType()) && !rebases => Some(int)
      case (TimestampType, INT64) if is(micros(true)) && !rebases => Some(long)
      case (TimestampNTZType, INT64) if is(micros(false)) => Some(long)
      case (_: YearMonthIntervalType, INT32) if plain => Some(int)
      case (_: DayTimeIntervalType, INT64) if plain => Some(long)
      case (_: StringType, BINARY) if is(LogicalTypeAnnotation.stringType()) => Some(bytes)
      case (BinaryType, BINARY) if plain => Some(bytes)
      case (decimal: DecimalType, kind) if is(LogicalTypeAnnotation.decimalType(decimal.scale, decimal.precision)) =>
        // A vector's representation of a decimal depends on its precision; a file's depends on its writer.
        def whole(values: ValuesReader): Long = kind match {
          case INT32 => values.readInteger()
          case INT64 => values.readLong()
          case _ => new BigInteger(values.readBytes().getBytesUnsafe).longValue
        }
        if (decimal.precision <= Decimal.MAX_INT_DIGITS) Some((values, vector, row) => vector.putInt(row, whole(values).toInt))
        else if (decimal.precision <= Decimal.MAX_LONG_DIGITS) Some((values, vector, row) => vector.putLong(row, whole(values)))
        else Option.when(kind == FIXED_LEN_BYTE_ARRAY || kind == BINARY)(bytes)
      case _ => None
    }
  }
}
