package headwater.spark.bridge

import java.util.concurrent.{Callable, ExecutionException, Future, LinkedBlockingQueue, ThreadPoolExecutor, TimeUnit}

/** Parallel requests to a store. All statements share one bounded pool of threads, which mostly wait. */
private[spark] object StoreRequests {
  val MostAtOnce = 64

  private lazy val threads = {
    val made = new ThreadPoolExecutor(
      MostAtOnce,
      MostAtOnce,
      30,
      TimeUnit.SECONDS,
      new LinkedBlockingQueue[Runnable],
      (work: Runnable) => {
        val thread = new Thread(work, "headwater-store-request")
        thread.setDaemon(true)
        thread
      })
    made.allowCoreThreadTimeOut(true)
    made
  }

  /** The result of `request` for each item, in order. The first failure, or an interrupt of the caller, cancels all other requests. */
  def each[A, B](items: Seq[A])(request: A => B): Seq[B] = items match {
    case Seq(one) => Seq(request(one))
    case _ =>
      val coming: Seq[Future[B]] = items.map(item => threads.submit((() => request(item)): Callable[B]))
      try coming.map(_.get())
      catch { case e: ExecutionException => throw e.getCause }
      finally coming.foreach(_.cancel(true))
  }
}
