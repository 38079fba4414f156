package headwater.spark.bridge

/**
 * The handler process as this side calls it: one coarse call, JSON in and JSON out. Through `context` the handler uses the running
 * statement while it works; its calls run on the thread that called it.
 */
trait Handler {
  def call(name: String, request: String, context: StatementContext): String
}
