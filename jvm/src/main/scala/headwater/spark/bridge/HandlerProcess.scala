package headwater.spark.bridge

import java.io.{BufferedReader, File, InputStreamReader, IOException, OutputStreamWriter}
import java.nio.charset.StandardCharsets.UTF_8
import java.security.SecureRandom
import java.util.concurrent.TimeUnit

import scala.util.control.NonFatal

import com.fasterxml.jackson.core.JsonProcessingException
import com.fasterxml.jackson.databind.JsonNode
import headwater.spark.HeadwaterException
import headwater.spark.bridge.messages.{Envelope, ErrorDescription, SessionSettings}
import headwater.spark.bridge.wire.Call
import headwater.spark.shims.BuildProperties
import org.apache.spark.{SparkConf, SparkEnv, SparkFiles}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.headwater.bridge.HandlerMetrics
import py4j.{JavaServer, Py4JException}

/**
 * A running handler process and the authenticated loopback connection to it.
 *
 * The token and the ports travel over the process's standard input and output, never on a command line or in an environment variable. The
 * process ends when its standard input closes; the operating system closes it however this JVM ends.
 */
final class HandlerProcess private (process: Process, server: JavaServer, connections: HandlerConnections, handler: Handler) {
  def isAlive: Boolean = process.isAlive
  def pid: Long = process.pid()

  /**
   * Makes a call. It ends early if the statement is cancelled.
   *
   * @throws py4j.Py4JException there is no answer, or only a part of one
   */
  def call(name: String, request: String, context: StatementContext): JsonNode = {
    val thread = Thread.currentThread()
    val began = System.nanoTime()
    val text = Cancellations.watching(context, () => connections.giveUp(thread))(handler.call(name, request, context))
    val answer = try Json.parse(text)
    catch { case e: JsonProcessingException => throw new Py4JException("the answer was cut off", e) }
    HandlerMetrics.answered(answer, System.nanoTime() - began)
    answer
  }

  /** Makes a call that belongs to no statement. */
  def call(request: Call[_]): Unit =
    handler.call(request.call, Json.write(Envelope(SessionSettings(), request)), null)

  /** The answer of such a call. */
  def ask[A](request: Call[A]): A = {
    val began = System.nanoTime()
    val answer = Json.parse(handler.call(request.call, Json.write(Envelope(SessionSettings(), request)), null))
    HandlerMetrics.answered(answer, System.nanoTime() - began)
    request.answer.read(answer.get("result"))
  }

  /**
   * Whether the process is dead, or dies within this time: a killed process is seen as dead only after a moment. Interrupts wait that long.
   */
  def endsWithin(milliseconds: Long): Boolean = {
    val until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds)
    var interrupted = false
    while (process.isAlive && System.nanoTime() < until)
      try process.waitFor(until - System.nanoTime(), TimeUnit.NANOSECONDS)
      catch { case _: InterruptedException => interrupted = true }
    if (interrupted) Thread.currentThread().interrupt()
    !process.isAlive
  }

  def stop(): Unit = {
    try server.shutdown(true)
    catch { case NonFatal(_) => }
    try process.getOutputStream.close()
    catch { case NonFatal(_) => }
    if (!endsWithin(1000)) process.destroyForcibly()
  }
}

object HandlerProcess extends Logging {
  private val HandshakeSeconds = 60L
  /** Java's exit code of a process that a signal ended is this plus the signal. */
  private val FirstSignal = 128

  /** What Python runs: the module that its arguments name, not looked for in the working directory. */
  private val Start = "import sys; sys.path[:] = filter(None, sys.path); import runpy; runpy.run_module(sys.argv[2], run_name='__main__')"

  // At level INFO, py4j logs every message with its content; a statement's text does not belong in a log.
  private val py4jLog = java.util.logging.Logger.getLogger("py4j")
  if (py4jLog.getLevel == null) py4jLog.setLevel(java.util.logging.Level.WARNING)

  /** What a handler learns of Spark's configuration when it starts. */
  def settings(conf: SparkConf): Map[String, String] =
    conf.getAll.filter { case (name, _) => name.startsWith("spark.headwater.") }.toMap

  /** Starts the first interpreter that has the `headwater` package. */
  def start(conf: SparkConf): HandlerProcess = {
    showLog(conf)
    val attempts = candidates(conf).to(LazyList).map { python =>
      startWith(python, conf).left.map(failed => failed.copy(reason = s"$python (${failed.reason})"))
    }
    attempts.collectFirst { case Right(running) => running }.getOrElse {
      val failed = attempts.collect { case Left(reason) => reason }
      failed.flatMap(_.refusal).headOption.foreach(throw _)
      val condition = if (failed.forall(_.noPackage)) "HEADWATER_HANDLER_NOT_STARTED" else "HEADWATER_HANDLER_ENDED_AT_START"
      throw HeadwaterException(condition, "tried" -> failed.map(_.reason).mkString("; "))
    }
  }

  /** Why an interpreter runs no handler. `noPackage`: it does not exist, or lacks the package; `refusal`: what its handler answered. */
  private final case class NotStarted(reason: String, noPackage: Boolean, refusal: Option[HeadwaterException] = None)

  /** The interpreters to try: only the setting if given; else the JAR's environment, PySpark's settings and `python3`. */
  private def candidates(conf: SparkConf): Seq[String] = named(conf).map(unpacked)

  /**
   * An interpreter of an archive that Spark has unpacked: by its relative path, where no such file is in the working directory. YARN and
   * Kubernetes unpack archives there; every other driver, into a folder that only Spark knows.
   */
  private def unpacked(python: String): String =
    if (!python.contains('/') || new File(python).exists || SparkEnv.get == null) python
    else Option(new File(SparkFiles.getRootDirectory(), python)).filter(_.exists).fold(python)(_.getPath)

  private def named(conf: SparkConf): Seq[String] =
    conf.getOption("spark.headwater.python").map(_.trim).filter(_.nonEmpty).map(Seq(_)).getOrElse {
      val own = jarFile.toSeq.flatMap { jar =>
        Iterator.iterate(jar.getParentFile)(_.getParentFile).takeWhile(_ != null).take(8)
          .flatMap(dir => Seq("bin/python", "bin/python3").map(new File(dir, _))).find(_.canExecute).map(_.getPath)
      }
      val pyspark = Seq("spark.pyspark.driver.python", "spark.pyspark.python").flatMap(conf.getOption) ++
        Seq("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON").flatMap(sys.env.get)
      (own ++ pyspark.filter(_.trim.nonEmpty) :+ "python3").distinct
    }

  private def jarFile: Option[File] =
    Option(getClass.getProtectionDomain.getCodeSource).map(s => new File(s.getLocation.toURI)).filter(_.isFile)

  /** In a source checkout, the folder of the package that the JAR lies in. */
  private def sourcePackage: Option[String] =
    jarFile.map(_.getParentFile.getParentFile).filter(p => p != null && new File(p, "__init__.py").isFile)
      .map(_.getParentFile.getPath).filterNot(_.endsWith("-packages"))

  private def startWith(python: String, conf: SparkConf): Either[NotStarted, HandlerProcess] = {
    val builder = new ProcessBuilder(python, "-c", Start, "-m", "headwater.handler")
    // So that the handler imports no `json.py` from the directory in which Spark was started. Python 3.10 does not know it.
    builder.environment.put("PYTHONSAFEPATH", "1")
    sourcePackage.foreach { path =>
      val inherited = Option(builder.environment.get("PYTHONPATH")).filter(_.nonEmpty)
      builder.environment.put("PYTHONPATH", (Seq(path) ++ inherited).mkString(File.pathSeparator))
    }
    val process = try builder.start()
    catch { case NonFatal(e) => return Left(NotStarted(oneLine(e.getMessage), noPackage = true)) }
    val log = new HandlerLog(process.getErrorStream)
    try {
      val running = shakeHands(process, conf)
      log.handlerStarted()
      HandlerMetrics.handlerStarted()
      Right(running)
    } catch {
      case e: HeadwaterException =>
        process.destroyForcibly()
        Left(NotStarted(oneLine(e.getMessage), noPackage = false, Some(e)))
      case NonFatal(e) =>
        // Destroying a process closes its streams, with all that is still in them.
        val words = log.lastWords.map(oneLine)
        process.destroyForcibly()
        val noPackage = words.exists(_.contains("No module named"))
        Left(NotStarted(if (noPackage) words.get else (oneLine(e.getMessage) +: words.toSeq).mkString(": "), noPackage))
    }
  }

  private def shakeHands(process: Process, conf: SparkConf): HandlerProcess = {
    val token = newToken()
    val toChild = new OutputStreamWriter(process.getOutputStream, UTF_8)
    def send(values: (String, Any)*): Unit = { toChild.write(Json.write(values.toMap) + "\n"); toChild.flush() }
    // If the process has ended already, the missing answer below says how.
    try send(
        "token" -> token,
        "settings" -> settings(conf),
        "bridge" -> BuildProperties.bridgeVersion,
        "jar" -> jarFile.map(_.getPath).getOrElse(""))
    catch { case _: IOException => }
    val answer = readAnswer(process)
    Option(answer.get("error")).foreach(error => throw HeadwaterException.of(ErrorDescription.fromJson.read(error)))
    val port = answer.get("port").asInt()
    // The Python side listens already, so this side is built with both ports and the token. py4j would drop the token if a finished server
    // were pointed at another port.
    val client = new HandlerConnections(port, token)
    val server = new JavaServer(null, 0, 0, 0, null, client, token)
    client.setGateway(server.getGateway)
    client.setJavaServer(server)
    server.start()
    val handler = client.getPythonServerEntryPoint(server.getGateway, Array(classOf[Handler])).asInstanceOf[Handler]
    send("port" -> server.getListeningPort)
    new HandlerProcess(process, server, client, handler)
  }

  private def readAnswer(process: Process): JsonNode = {
    @volatile var late = false
    val timer = new Thread(
      () => {
        try { Thread.sleep(HandshakeSeconds * 1000); late = true; process.destroyForcibly() }
        catch { case _: InterruptedException => }
      },
      "headwater-handshake")
    timer.setDaemon(true)
    timer.start()
    val reader = new BufferedReader(new InputStreamReader(process.getInputStream, UTF_8))
    // Other lines come from the interpreter's own start-up files.
    val answer = try Iterator.continually(reader.readLine()).find(line => line == null || line.startsWith("{")).get
    finally timer.interrupt()
    if (answer != null) Json.parse(answer)
    else if (late) throw new IllegalStateException(s"it did not answer within $HandshakeSeconds s")
    else if (!process.waitFor(2, TimeUnit.SECONDS)) throw new IllegalStateException("it closed its output")
    else if (process.exitValue > FirstSignal) throw new IllegalStateException(s"it was ended by signal ${process.exitValue - FirstSignal}")
    else throw new IllegalStateException(s"it ended with exit code ${process.exitValue}")
  }

  /** If the setting asks for the handler's log at a level, Spark's log shows it, whatever level the rest of it has. */
  private def showLog(conf: SparkConf): Unit = conf.getOption("spark.headwater.log.level").foreach { level =>
    try {
      org.apache.logging.log4j.core.config.Configurator.setLevel(
        classOf[HandlerLog].getName,
        org.apache.logging.log4j.Level.toLevel(level, org.apache.logging.log4j.Level.WARN))
    } catch { case _: LinkageError => }
  }

  private def oneLine(text: String): String = String.valueOf(text).linesIterator.mkString(" ")

  private def newToken(): String = {
    val bytes = new Array[Byte](32)
    new SecureRandom().nextBytes(bytes)
    bytes.map("%02x".format(_)).mkString
  }
}
