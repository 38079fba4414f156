package headwater.spark.streaming

import org.apache.spark.sql.execution.streaming.Offset

/** How far a stream has read a table. Only the handler looks into the text. */
case class HeadwaterOffset(override val json: String) extends Offset
