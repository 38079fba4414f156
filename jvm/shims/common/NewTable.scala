package headwater.spark.shims

import java.util

import headwater.spark.bridge.messages.TableConstraint
import org.apache.spark.sql.connector.catalog.Column
import org.apache.spark.sql.connector.expressions.Transform

/** A table that is to be created, as Spark asks its catalog for it. */
final case class NewTable(
    columns: Array[Column],
    partitions: Array[Transform],
    properties: util.Map[String, String],
    constraints: Seq[TableConstraint] = Nil)
