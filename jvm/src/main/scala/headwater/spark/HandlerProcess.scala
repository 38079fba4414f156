package headwater.spark

import java.io.{BufferedReader, File, InputStreamReader, OutputStreamWriter}
import java.net.InetAddress
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}
import java.security.SecureRandom
import java.util.concurrent.{ConcurrentLinkedDeque, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.SparkConf
import org.apache.spark.internal.Logging
import py4j.ClientServer

/**
 * One running handler process and the authenticated loopback connection to it.
 *
 * The token and the ports travel over the process's standard input and output, never over a command line or an environment. The process
 * ends when its standard input closes, which the operating system does however this JVM ends.
 */
final class HandlerProcess private (process: Process, server: ClientServer, val handler: Handler) {
  def isAlive: Boolean = process.isAlive
  def pid: Long = process.pid()

  def stop(): Unit = {
    try server.shutdown() catch { case NonFatal(_) => }
    process.getOutputStream.close()
    if (!process.waitFor(1, TimeUnit.SECONDS)) process.destroyForcibly()
  }
}

object HandlerProcess extends Logging {
  private val HandshakeSeconds = 60L

  /** Starts the first interpreter that has the `headwater` package. */
  def start(conf: SparkConf): HandlerProcess = {
    val tried = Seq.newBuilder[String]
    candidates(conf).foreach { python =>
      startWith(python, conf) match {
        case Right(running) => return running
        case Left(reason) => tried += s"$python: $reason"
      }
    }
    throw new HeadwaterException(
      "HEADWATER_HANDLER_NOT_STARTED",
      "58000",
      "The Headwater handler process could not be started. Install the package into one of these interpreters (pip install headwater), " +
        s"or name one that has it in spark.headwater.python. Tried: ${tried.result().mkString("; ")}.",
      Map.empty)
  }

  /** The interpreters to try: the setting alone if given; else the JAR's environment, PySpark's settings, `python3`. */
  private def candidates(conf: SparkConf): Seq[String] =
    conf.getOption("spark.headwater.python").map(Seq(_)).getOrElse {
      val own = jarFile.toSeq.flatMap { jar =>
        Iterator.iterate(jar.getParentFile)(_.getParentFile).takeWhile(_ != null).take(8)
          .map(dir => new File(dir, "bin/python")).find(_.canExecute).map(_.getPath)
      }
      val pyspark = Seq("spark.pyspark.driver.python", "spark.pyspark.python").flatMap(conf.getOption) ++
        Seq("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON").flatMap(sys.env.get)
      (own ++ pyspark :+ "python3").distinct
    }

  private def jarFile: Option[File] =
    Option(getClass.getProtectionDomain.getCodeSource).map(s => new File(s.getLocation.toURI)).filter(_.isFile)

  /** In a source checkout the package beside the JAR is the one that matches it. */
  private def sourcePackage: Option[String] =
    jarFile.map(_.getParentFile.getParentFile).filter(p => p != null && new File(p, "__init__.py").isFile)
      .map(_.getParentFile.getPath).filterNot(_.endsWith("-packages"))

  private def startWith(python: String, conf: SparkConf): Either[String, HandlerProcess] = {
    val builder = new ProcessBuilder(python, "-m", "headwater.bridge")
    sourcePackage.foreach { path =>
      val inherited = Option(builder.environment.get("PYTHONPATH")).filter(_.nonEmpty)
      builder.environment.put("PYTHONPATH", (Seq(path) ++ inherited).mkString(File.pathSeparator))
    }
    val process = try builder.start() catch { case NonFatal(e) => return Left(e.getMessage) }
    val lastLines = new ConcurrentLinkedDeque[String]()
    forwardLog(process, lastLines)
    try {
      val token = newToken()
      val toChild = new OutputStreamWriter(process.getOutputStream, UTF_8)
      def send(values: (String, Any)*): Unit = { toChild.write(Json.write(values.toMap) + "\n"); toChild.flush() }
      send(
        "token" -> token,
        "logLevel" -> conf.get("spark.headwater.log.level", "WARN"),
        "javaVersion" -> System.getProperty("java.version"),
        "sparkVersion" -> org.apache.spark.SPARK_VERSION)
      val fromChild = new BufferedReader(new InputStreamReader(process.getInputStream, UTF_8))
      val answer = readLine(process, fromChild)
      if (answer == null) {
        process.waitFor(2, TimeUnit.SECONDS)
        val said = lastLines.asScala.lastOption.getOrElse("it ended without a word")
        return Left(said)
      }
      // The Python side is listening already: building this side with both ports keeps the token on both
      // directions, which re-pointing a finished server at another port would drop.
      val loopback = InetAddress.getLoopbackAddress
      val server = new ClientServer.ClientServerBuilder()
        .javaAddress(loopback).javaPort(0)
        .pythonAddress(loopback).pythonPort(Json.parse(answer).get("port").asInt())
        .authToken(token)
        .autoStartJavaServer(false)
        .build()
      server.startServer()
      val handler = server.getPythonServerEntryPoint(Array(classOf[Handler])).asInstanceOf[Handler]
      send("port" -> server.getJavaServer.getListeningPort)
      Right(new HandlerProcess(process, server, handler))
    } catch {
      case NonFatal(e) =>
        process.destroyForcibly()
        Left(lastLines.asScala.lastOption.getOrElse(String.valueOf(e.getMessage)))
    }
  }

  private def readLine(process: Process, reader: BufferedReader): String = {
    val timer = new Thread(() => {
      try { Thread.sleep(HandshakeSeconds * 1000); process.destroyForcibly() } catch { case _: InterruptedException => }
    }, "headwater-handshake")
    timer.setDaemon(true)
    timer.start()
    try reader.readLine() finally timer.interrupt()
  }

  /** The handler's log lines go to Spark's own log; the last few are kept for the error of a start that failed. */
  private def forwardLog(process: Process, lastLines: ConcurrentLinkedDeque[String]): Unit = {
    val thread = new Thread(() => {
      val reader = new BufferedReader(new InputStreamReader(process.getErrorStream, UTF_8))
      try {
        Iterator.continually(reader.readLine()).takeWhile(_ != null).foreach { line =>
          lastLines.add(line)
          if (lastLines.size > 20) lastLines.poll()
          if (line.startsWith("DEBUG")) logDebug(line)
          else if (line.startsWith("INFO")) logInfo(line)
          else logWarning(line)
        }
      } catch { case NonFatal(_) => }
    }, "headwater-handler-log")
    thread.setDaemon(true)
    thread.start()
  }

  private def newToken(): String = {
    val bytes = new Array[Byte](32)
    new SecureRandom().nextBytes(bytes)
    bytes.map("%02x".format(_)).mkString
  }
}
