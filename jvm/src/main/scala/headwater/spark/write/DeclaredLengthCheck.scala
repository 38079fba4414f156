package headwater.spark.write

import headwater.spark.HeadwaterException
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.util.CharVarcharCodegenUtils
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/** Spark's check of the lengths of CHAR and VARCHAR, whose error also names the column and the value. */
object DeclaredLengthCheck {
  /** The methods that generated code calls by name, so none has the name of a keyword of Java. */
  private val Checks = Map("charTypeWriteSideCheck" -> "checkedChar", "varcharTypeWriteSideCheck" -> "checkedVarchar")
  /** Characters of a value that an error shows. */
  private val LongestShown = 200

  /** The value of a column, with Spark's checks in it replaced. */
  def named(value: Expression, column: String): Expression = value.transform {
    case check: StaticInvoke if check.staticObject == classOf[CharVarcharCodegenUtils] && Checks.contains(check.functionName) =>
      StaticInvoke(
        DeclaredLengthCheck.getClass,
        StringType,
        Checks(check.functionName),
        check.arguments :+ Literal(column),
        propagateNull = check.propagateNull,
        returnNullable = check.returnNullable)
  }

  def checkedChar(value: UTF8String, length: Int, column: UTF8String): UTF8String =
    checked("CHAR", value, length, column)(CharVarcharCodegenUtils.charTypeWriteSideCheck(value, length))

  def checkedVarchar(value: UTF8String, length: Int, column: UTF8String): UTF8String =
    checked("VARCHAR", value, length, column)(CharVarcharCodegenUtils.varcharTypeWriteSideCheck(value, length))

  private def checked(kind: String, value: UTF8String, length: Int, column: UTF8String)(check: => UTF8String): UTF8String =
    try check
    catch {
      case _: RuntimeException =>
        val text = value.toString
        val shown = if (text.length > LongestShown) text.take(LongestShown) + "…" else text
        val error = HeadwaterException(
          "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
          "columnName" -> column.toString,
          "type" -> s"$kind($length)",
          "value" -> shown,
          "length" -> value.numChars().toString)
        // Spark evaluates constants while it plans the statement, where nothing turns the error of a row into that of a statement.
        throw (if (TaskContext.get() == null) error else error.inRow)
    }
}
