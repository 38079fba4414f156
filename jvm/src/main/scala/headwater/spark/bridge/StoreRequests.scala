package headwater.spark.bridge

import java.util.concurrent.{Callable, ExecutionException, Future, LinkedBlockingQueue, ThreadPoolExecutor, TimeUnit}

/** Requests to a store, many at the same time: threads that mostly wait, shared by all statements, so that there is a bound on them. */
private[spark] object StoreRequests {
  val MostAtOnce = 64

  private lazy val threads = {
    val made = new ThreadPoolExecutor(MostAtOnce, MostAtOnce, 30, TimeUnit.SECONDS, new LinkedBlockingQueue[Runnable], (work: Runnable) => {
      val thread = new Thread(work, "headwater-store-request")
      thread.setDaemon(true)
      thread
    })
    made.allowCoreThreadTimeOut(true)
    made
  }

  /** What `request` gives for each item, in order. The first failure ends it, as does an interrupt of the caller; no request goes on then. */
  def each[A, B](items: Seq[A])(request: A => B): Seq[B] = items match {
    case Seq(one) => Seq(request(one))
    case _ =>
      val coming: Seq[Future[B]] = items.map(item => threads.submit((() => request(item)): Callable[B]))
      try coming.map(_.get())
      catch { case e: ExecutionException => throw e.getCause }
      finally coming.foreach(_.cancel(true))
  }
}
