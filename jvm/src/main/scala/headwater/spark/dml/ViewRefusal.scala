package headwater.spark.dml

import headwater.spark.HeadwaterException

/** The errors of statements that would change rows through a view. */
private[dml] object ViewRefusal {
  private val Conditions = Map(
    "view" -> "DELTA_UNSUPPORTED_SOURCE",
    "rows" -> "DELTA_UNSUPPORTED_SOURCE",
    "filter" -> "DELTA_UNEXPECTED_PARTIAL_SCAN",
    "columns" -> "HEADWATER_VIEW_OF_OTHER_COLUMNS",
    "computed" -> "DELTA_CANNOT_RESOLVE_COLUMN",
    "evolution" -> "DELTA_OPERATION_ON_VIEW_NOT_ALLOWED")

  private val Reasons = Map(
    "view" -> "it is, or reads, a view that a catalog keeps, and rows are changed through temporary views alone.",
    "rows" ->
      ("they are not the rows of one Delta table, because the view joins, groups, sorts, limits or computes rows, or reads changes. " +
        "A view whose rows can be changed selects columns of one table."))

  /**
   * @param kind why: it is no temporary `view`, its `rows` come from more than one table or are computed, it shows some rows only
   *   (`filter`), it has `columns` that the table has no more, or the statement assigns to a `computed` column or asks for the
   *   `evolution` of its columns
   * @param column the computed column
   */
  def apply(statement: String, view: String, kind: String, column: Option[String] = None): HeadwaterException = HeadwaterException(
    Conditions(kind),
    Seq("operation" -> statement, "viewName" -> view) ++ Reasons.get(kind).map("reason" -> _) ++ column.map("columnName" -> _): _*)
}
