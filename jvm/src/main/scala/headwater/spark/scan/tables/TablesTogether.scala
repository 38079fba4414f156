package headwater.spark.scan.tables

import headwater.spark.bridge.Bridge
import headwater.spark.bridge.wire.{Call, Message}
import org.apache.spark.sql.SparkSession

/**
 * Asks the handler about all tables of a query by one call: a call costs more than most of what it asks for.
 *
 * One call belongs to one session, and to tables that are reached with the same options.
 */
private[scan] object TablesTogether {
  /** The answers, in the order of the requests. Equal requests are made once. */
  def ask[R <: Message, A](asked: Seq[(SparkSession, HeadwaterFileIndex, R)])(call: Seq[R] => Call[Seq[A]]): Seq[A] = {
    val answers = asked.groupBy { case (session, index, _) => (session, index.indexed.store) }.flatMap { case ((session, store), group) =>
      val requests = group.map(_._3).distinct
      val locations = group.map(_._2.tableLocation).distinct
      requests.zip(Bridge.call(session, call(requests), locations: _*)).map { case (request, answer) =>
        (session, store, request) -> answer
      }
    }
    asked.map { case (session, index, request) => answers((session, index.indexed.store, request)) }
  }
}
