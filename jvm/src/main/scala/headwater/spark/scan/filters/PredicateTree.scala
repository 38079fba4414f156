package headwater.spark.scan.filters

import java.nio.charset.StandardCharsets
import java.util.Base64

import scala.annotation.tailrec
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.bridge.Json
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Translates a resolved condition to the expression tree of `headwater/pruning/predicates.py`: one case a node, `unknown` for any other
 * expression. Literals cross as values, so neither a time zone nor the rules of SQL text take part.
 */
object PredicateTree {
  private type Node = Map[String, Any]

  private val Unknown: Node = Map("op" -> "unknown")

  /** What an expression becomes that pruning cannot evaluate. */
  val Nothing: JsonNode = Json.node(Unknown)

  /** Levels of NOT, AND and OR that are translated: parsers of JSON limit how deep it nests. Chains of ANDs and ORs are one level. */
  private val MaxDepth = 50

  def of(condition: Expression): JsonNode =
    Json.node(try predicate(FilterText.unfolded(condition), MaxDepth)
    catch { case NonFatal(_) => Unknown })

  /** Whether a condition depends on nothing but the values of one row: not on a subquery or a random number. */
  def isOverRow(condition: Expression): Boolean = condition.deterministic && !condition.exists(_.isInstanceOf[PlanExpression[_]])

  /** Whether pruning knows bounds of an expression's values in a file. */
  def isOperand(e: Expression): Boolean = e.references.nonEmpty && Operand.unapply(e).nonEmpty

  private def predicate(e: Expression, depth: Int): Node = e match {
    case _ if depth == 0 => Unknown
    case And(left, right) => Map("op" -> "and", "children" -> chain(left, right) { case And(l, r) => (l, r) }.map(predicate(_, depth - 1)))
    case Or(left, right) => Map("op" -> "or", "children" -> chain(left, right) { case Or(l, r) => (l, r) }.map(predicate(_, depth - 1)))
    case Not(child) => not(predicate(child, depth - 1))
    case Constant(literal) if literal.dataType == BooleanType => Map("op" -> "constant", "value" -> literal.value)
    case EqualTo(left, right) => compare("=", left, right)
    case EqualNullSafe(left, right) => compare("<=>", left, right)
    case LessThan(left, right) => compare("<", left, right)
    case LessThanOrEqual(left, right) => compare("<=", left, right)
    case GreaterThan(left, right) => compare("<", right, left)
    case GreaterThanOrEqual(left, right) => compare("<=", right, left)
    case IsNull(Operand(child)) => Map("op" -> "is_null", "child" -> child)
    case IsNotNull(child) => not(predicate(IsNull(child), depth))
    case In(child, list) if list.forall(_.dataType == child.dataType) =>
      in(child, list.map { case Constant(l) => Some(l.value); case _ => None })
    case InSet(child, set) => in(child, set.toSeq.map(Some(_)))
    case StartsWith(Operand(child), Constant(Text(prefix))) => Map("op" -> "starts_with", "child" -> child, "prefix" -> prefix)
    case Like(Operand(child), Constant(Text(pattern)), escape) =>
      Map("op" -> "like", "child" -> child, "pattern" -> pattern, "escape" -> escape.toString)
    case column if column.dataType == BooleanType => compare("=", column, Literal.TrueLiteral)
    case _ => Unknown
  }

  /** What a chain of one operator connects, in order; without recursion, because a chain may have thousands of links. */
  private def chain(left: Expression, right: Expression)(link: PartialFunction[Expression, (Expression, Expression)]): Seq[Expression] = {
    @tailrec def flat(pending: List[Expression], found: List[Expression]): List[Expression] = pending match {
      case Nil => found.reverse
      case head :: rest => link.lift(head) match {
          case Some((l, r)) => flat(l :: r :: rest, found)
          case None => flat(rest, head :: found)
        }
    }
    flat(List(left, right), Nil)
  }

  private def not(child: Node): Node = Map("op" -> "not", "child" -> child)

  private def compare(operator: String, left: Expression, right: Expression): Node = (left, right) match {
    case (Operand(l), Operand(r)) => Map("op" -> "compare", "operator" -> operator, "left" -> l, "right" -> r)
    case _ => Unknown
  }

  /** @param listed the values, None for an element that is not constant */
  private def in(child: Expression, listed: Seq[Option[Any]]): Node = {
    val values = listed.map(_.flatMap(json(_, child.dataType)))
    child match {
      case Operand(c) if values.forall(_.isDefined) =>
        Map("op" -> "in", "child" -> c, "type" -> child.dataType.typeName, "values" -> values.map(_.get))
      case _ => Unknown
    }
  }

  private object Operand {
    def unapply(e: Expression): Option[Node] = e match {
      case Constant(literal) =>
        json(literal.value, literal.dataType).map(v => Map("op" -> "literal", "type" -> literal.dataType.typeName, "value" -> v))
      case Cast(Operand(child), dataType, _, _) => Some(Map("op" -> "cast", "child" -> child, "type" -> dataType.typeName))
      case Year(Operand(child)) => Some(Map("op" -> "year", "child" -> child))
      case Path(names) => Some(Map("op" -> "column", "path" -> names))
      case _ => None
    }
  }

  /** A column, or a field inside structs. */
  private object Path {
    def unapply(e: Expression): Option[Seq[String]] = e match {
      case column: AttributeReference => Some(Seq(column.name)).filter(_.forall(isText))
      case field @ GetStructField(Path(names), ordinal, _) => Some(names :+ field.childSchema(ordinal).name).filter(_.forall(isText))
      case _ => None
    }

    /** Whether a name has no half of a surrogate pair, which becomes another character on its way. */
    private def isText(name: String): Boolean = StandardCharsets.UTF_8.newEncoder().canEncode(name)
  }

  /** An expression with the same value for every row, today and tomorrow. */
  private object Constant {
    def unapply(e: Expression): Option[Literal] = e match {
      case literal: Literal => Some(literal)
      case _ if e.foldable && !e.containsPattern(CURRENT_LIKE) && !e.exists(_.isInstanceOf[UserDefinedExpression]) =>
        try Some(Literal(e.eval(), e.dataType))
        catch { case NonFatal(_) => None }
      case _ => None
    }
  }

  private object Text {
    def unapply(literal: Literal): Option[String] = literal.value match {
      case text: UTF8String if literal.dataType == StringType && text.isValid => Some(text.toString)
      case _ => None
    }
  }

  /** A value as JSON has it; None for types and values that JSON cannot carry exactly. */
  private def json(value: Any, dataType: DataType): Option[Any] = (value, dataType) match {
    case (null, _) => Some(null)
    case (truth: Boolean, BooleanType) => Some(truth)
    case (number: Byte, ByteType) => Some(number)
    case (number: Short, ShortType) => Some(number)
    case (number: Int, IntegerType | DateType) => Some(number)
    case (number: Long, LongType | TimestampType | TimestampNTZType) => Some(number)
    case (number: Float, FloatType) => Some(floating(number.toDouble))
    case (number: Double, DoubleType) => Some(floating(number))
    case (number: Decimal, _: DecimalType) => Some(number.toJavaBigDecimal.toPlainString)
    case (text: UTF8String, _: StringType) if text.isValid => Some(text.toString)
    case (bytes: Array[Byte], BinaryType) => Some(Base64.getEncoder.encodeToString(bytes))
    case _ => None
  }

  private def floating(number: Double): Any = if (number.isNaN || number.isInfinite) number.toString else number
}
