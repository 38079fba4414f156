package headwater.spark.bridge.messages

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode

/** How a type is read from JSON. */
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
