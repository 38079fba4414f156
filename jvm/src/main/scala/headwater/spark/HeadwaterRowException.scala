package headwater.spark

import scala.jdk.CollectionConverters._

/**
 * The same for an error found while rows are processed, inside a task. It has no stack trace, which would be that of generated code: the row
 * is at fault, and each task that meets one logs it.
 */
class HeadwaterRowException(condition: String, state: String, text: String, parameters: Map[String, String])
    extends RuntimeException(HeadwaterException.render(condition, state, text), null, false, false)
    with HeadwaterThrowable {
  override def getCondition: String = condition
  override def getSqlState: String = state
  override def getMessageParameters: java.util.Map[String, String] = parameters.asJava
  def toStatementError: HeadwaterException = new HeadwaterException(condition, state, text, parameters)
}
