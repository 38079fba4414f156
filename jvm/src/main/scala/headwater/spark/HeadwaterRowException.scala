package headwater.spark

import scala.jdk.CollectionConverters._

/**
 * The same as [[HeadwaterException]], for a task that finds the error while it processes rows. It has no stack trace: that would show
 * generated code, while the row is at fault, and each task logs it.
 */
class HeadwaterRowException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends RuntimeException(HeadwaterException.render(condition, state, text), null, false, false)
    with HeadwaterThrowable {
  override def getCondition: String = condition
  override def getSqlState: String = state
  override def getMessageParameters: java.util.Map[String, String] = parameters.asJava
  def toStatementError: HeadwaterException = new HeadwaterException(condition, state, text, parameters)
}
