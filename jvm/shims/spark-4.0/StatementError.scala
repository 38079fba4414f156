package headwater.spark.shims

import org.apache.spark.sql.AnalysisException

/** Spark's error of a statement with a condition, a state and a text that are none of its own. This Spark has no place for the state. */
abstract class StatementError(condition: String, state: String, template: String, parameters: Map[String, String], text: String)
    extends AnalysisException(message = text, errorClass = Some(condition), messageParameters = parameters) {
  override def getSqlState: String = state
}
