package headwater.spark.bridge

import java.io.{InterruptedIOException, IOException}
import java.net.SocketTimeoutException
import java.nio.channels.ClosedByInterruptException

import scala.util.control.NonFatal

import headwater.spark.bridge.messages.StoreCause

/** A failure of one of Hadoop's file systems, with what the handler needs to say what it means. */
final class StoreFailure(cause: Throwable) extends RuntimeException(cause) {
  /** The failure and its causes, outermost first. */
  def described: Seq[StoreCause] =
    StoreFailure.causes(getCause).map(e =>
      StoreCause(`class` = e.getClass.getName, message = Option(e.getMessage), status = StoreFailure.httpStatus(e)))

  /** The same as JSON. */
  def describe: String = Json.write(described)
}

object StoreFailure {
  private val ConditionNotMet = 412

  /** Wraps what `body` throws in a [[StoreFailure]]. The interrupt of a cancelled statement is none and passes unchanged. */
  def wrapping[T](body: => T): T = try body
  catch {
    case e: StoreFailure => throw e
    case e: IOException if isInterrupt(e) => throw e
    case e @ (NonFatal(_) | _: LinkageError) => throw new StoreFailure(e)
  }

  /** Whether a cancelled statement ended a request: no failure of the store's. */
  def isInterrupt(error: IOException): Boolean = error match {
    case _: SocketTimeoutException => false
    case _: InterruptedIOException | _: ClosedByInterruptException => true
    case _ => false
  }

  def isConditionNotMet(error: IOException): Boolean =
    causes(error).exists(e => httpStatus(e).contains(ConditionNotMet) || e.getClass.getSimpleName == "RemoteFileChangedException")

  /** Google's connector hides several failures behind one of this text. */
  private val Several = "Multiple IOExceptions."

  private[spark] def causes(error: Throwable): Seq[Throwable] =
    Iterator.iterate(error)(e => if (e.getMessage == Several) e.getSuppressed.headOption.orNull else e.getCause)
      .takeWhile(_ != null).take(20).filterNot(e => e.getMessage == Several && e.getSuppressed.nonEmpty).toSeq

  /** Whether a create or a rename was refused because something has the name. */
  def isTaken(error: IOException): Boolean =
    isConditionNotMet(error) || causes(error).exists(_.getClass.getSimpleName == "FileAlreadyExistsException")

  /** How errors of the clients of AWS, Google Cloud, Azure and Oracle Cloud tell HTTP's status. */
  private val Statuses = Seq("statusCode", "getStatusCode", "getCode")
  private val Clients =
    Seq("software.amazon.", "com.google.", "com.oracle.bmc.", "org.apache.hadoop.fs.azurebfs.", "org.apache.hadoop.fs.gs.")

  /** The clients are not on the compile class path, hence the reflection. */
  private def httpStatus(error: Throwable): Option[Int] =
    if (!Clients.exists(error.getClass.getName.startsWith)) None
    else Statuses.iterator.flatMap { name =>
      try Some(error.getClass.getMethod(name).invoke(error)).collect { case status: Int if status > 0 => status }
      catch { case NonFatal(_) => None }
    }.nextOption()
}
