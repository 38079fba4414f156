package headwater.spark.shims

import org.apache.spark.sql.AnalysisException

/** Spark's error of a statement with a condition, a state and a text that are none of Spark's own. */
abstract class StatementError(condition: String, state: String, template: String, parameters: Map[String, String], text: String)
    extends AnalysisException(
      errorClass = condition,
      sqlState = state,
      messageTemplate = template,
      messageParameters = parameters,
      cause = None,
      message = Some(text))
