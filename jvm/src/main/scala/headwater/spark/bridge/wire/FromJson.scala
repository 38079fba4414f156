package headwater.spark.bridge.wire

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

/**
 * How a type is read from JSON.
 *
 * Code of our own, although jackson-module-scala is among Spark's JARs: the module reads a small `Option[Long]` or `Seq[Long]` as Integers,
 * which fail where they are used, unless each such member is annotated; and it takes a number that is missing for 0, where a decoder here
 * refuses the message. Its first message costs 230 ms of a session's start (here 8 ms); each later one costs the same (Spark 4.2, per call:
 * a commit's answer 0.51 µs, here 0.43 µs; a table's summary 0.84 µs, here 0.81 µs).
 */
trait FromJson[A] {
  /** @param node null for a member that is not there */
  def read(node: JsonNode): A
}

object FromJson {
  /** A message, read by the names of its members. */
  def message[A](read: Members => A): FromJson[A] = node => read(new Members(required(node)))

  implicit val string: FromJson[String] = required(_).asText()
  implicit val long: FromJson[Long] = required(_).asLong()
  implicit val int: FromJson[Int] = required(_).asInt()
  /** False is left out. */
  implicit val boolean: FromJson[Boolean] = node => node != null && node.asBoolean()
  implicit val unit: FromJson[Unit] = _ => ()
  /** What this side does not look into. */
  implicit val node: FromJson[JsonNode] = required(_)

  implicit def option[A](implicit of: FromJson[A]): FromJson[Option[A]] =
    node => if (node == null || node.isNull) None else Some(of.read(node))

  implicit def seq[A](implicit of: FromJson[A]): FromJson[Seq[A]] = node => required(node).elements().asScala.map(of.read).toVector

  implicit def map[A](implicit of: FromJson[A]): FromJson[Map[String, A]] =
    node => required(node).properties().asScala.iterator.map(member => member.getKey -> of.read(member.getValue)).toMap

  private def required(node: JsonNode): JsonNode =
    if (node == null || node.isNull) throw new IllegalStateException("a message lacks a member") else node
}
