package headwater.spark.bridge

import java.net.{InetAddress, Socket}
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedDeque, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger
import javax.net.SocketFactory

import py4j.{ClientServerConnection, Py4JException, PythonClient}

/**
 * Connections to the handler, one for each running call.
 *
 * While a call runs, it has a connection to itself, and with it a thread of the handler. What the handler calls back arrives on the calling
 * thread, and so do calls made inside that. py4j would keep one connection for each thread that ever called; a Spark Connect server starts
 * a new thread for every statement. Here a connection is reused by the next call of any thread, and at most [[HandlerConnections.MostIdle]]
 * wait for one.
 */
private[spark] final class HandlerConnections(port: Int, token: String)
    extends PythonClient(
      null,
      null,
      port,
      HandlerConnections.Loopback,
      0,
      TimeUnit.SECONDS,
      SocketFactory.getDefault,
      null,
      true,
      0,
      token) {
  private val ofThread = new ThreadLocal[ClientServerConnection]
  private val inUse = new ConcurrentHashMap[Thread, ClientServerConnection]()
  private val open = ConcurrentHashMap.newKeySet[ClientServerConnection]()
  private val idle = new ConcurrentLinkedDeque[ClientServerConnection]()
  private val idleCount = new AtomicInteger()
  @volatile private var closed = false

  override def getPerThreadConnection: ClientServerConnection = ofThread.get

  override def setPerThreadConnection(connection: ClientServerConnection): Unit = ofThread.set(connection)

  override def sendCommand(command: String): String = sendCommand(command, true)

  override def sendCommand(command: String, blocking: Boolean): String = {
    val outer = ofThread.get
    if (outer != null && outer.getSocket != null) outer.sendCommand(command, blocking)
    else {
      val connection = take()
      ofThread.set(connection)
      inUse.put(Thread.currentThread(), connection)
      var usable = false
      try {
        val answer = connection.sendCommand(command, blocking)
        usable = true
        answer
      } finally {
        inUse.remove(Thread.currentThread())
        if (outer == null) ofThread.remove() else ofThread.set(outer)
        if (usable) giveBack(connection) else discard(connection)
      }
    }
  }

  /** Ends the call that a thread waits for, with an error. Its connection is not reused. */
  def giveUp(thread: Thread): Unit = Option(inUse.get(thread)).foreach { connection =>
    try connection.getSocket.close()
    catch { case _: java.io.IOException => }
  }

  override def shutdown(): Unit = {
    closed = true
    super.shutdown()
    open.forEach(discard(_))
  }

  override protected def startClientSocket(): Socket = {
    val socket = super.startClientSocket()
    socket.setTcpNoDelay(true)
    socket
  }

  private def take(): ClientServerConnection = Option(idle.pollFirst()) match {
    case Some(connection) => idleCount.decrementAndGet(); connection
    case None => connect()
  }

  private def connect(): ClientServerConnection = {
    if (closed) throw new Py4JException("the handler process has ended")
    val socket = try startClientSocket()
    catch { case e: java.io.IOException => throw new Py4JException("no connection to the handler process", e) }
    try {
      val connection = new ClientServerConnection(gateway, socket, customCommands, this, javaServer, readTimeout, authToken)
      connection.setInitiatedFromClient(true)
      connection.start()
      open.add(connection)
      connection
    } catch { case e: java.io.IOException => socket.close(); throw new Py4JException("the handler process refused the connection", e) }
  }

  private def giveBack(connection: ClientServerConnection): Unit =
    if (closed || idleCount.incrementAndGet() > HandlerConnections.MostIdle) {
      if (!closed) idleCount.decrementAndGet()
      discard(connection)
    } else idle.addFirst(connection)

  private def discard(connection: ClientServerConnection): Unit =
    if (open.remove(connection)) connection.shutdown(false)
}

private[spark] object HandlerConnections {
  /** A connection costs a socket and a thread of the handler; more calls rarely run at once. */
  val MostIdle = 8

  /** Not `InetAddress.getLoopbackAddress`: that may be IPv6, where the handler does not listen. */
  val Loopback: InetAddress = InetAddress.getByAddress("localhost", Array[Byte](127, 0, 0, 1))
}
