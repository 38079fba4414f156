package headwater.spark.bridge

/**
 * What the handler process answers: one coarse call, JSON in and JSON out. `context` is what the handler may use of the running
 * statement while it works; calls on it run on the thread that called.
 */
trait Handler {
  def call(name: String, request: String, context: StatementContext): String
}
