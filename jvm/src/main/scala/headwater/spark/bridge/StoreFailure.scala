package headwater.spark.bridge

import java.io.{InterruptedIOException, IOException}
import java.net.SocketTimeoutException
import java.nio.channels.ClosedByInterruptException

import scala.util.control.NonFatal

/** A failure of one of Hadoop's file systems, told so that the handler can say what it means. */
final class StoreFailure(cause: Throwable) extends RuntimeException(cause) {
  /** The failure and its causes, outermost first: `[{class, message, status}]`, the last of HTTP where it was one. */
  def describe: String = Json.write(StoreFailure.causes(getCause).map { e =>
    Map("class" -> e.getClass.getName, "message" -> e.getMessage, "status" -> StoreFailure.httpStatus(e))
  })
}

object StoreFailure {
  private val ConditionNotMet = 412

  /** A statement that was cancelled has not met a failure of the store. */
  def told[T](body: => T): T = try body catch {
    case e: StoreFailure => throw e
    case e: SocketTimeoutException => throw new StoreFailure(e)
    case e @ (_: InterruptedIOException | _: ClosedByInterruptException) => throw e
    case e @ (NonFatal(_) | _: LinkageError) => throw new StoreFailure(e)
  }

  def isConditionNotMet(error: IOException): Boolean =
    causes(error).exists(e => httpStatus(e).contains(ConditionNotMet) || e.getClass.getSimpleName == "RemoteFileChangedException")

  private[spark] def causes(error: Throwable): Seq[Throwable] = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).take(20).toSeq

  /** AWS's classes are not there to compile against; its errors tell the status by a method. */
  private def httpStatus(error: Throwable): Option[Int] =
    if (!error.getClass.getName.startsWith("software.amazon.")) None
    else try Some(error.getClass.getMethod("statusCode").invoke(error).asInstanceOf[Int]).filter(_ > 0)
    catch { case NonFatal(_) => None }
}
