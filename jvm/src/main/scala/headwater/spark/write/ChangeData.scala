package headwater.spark.write

/** How change data is told apart from a table's rows in a job that writes both. */
object ChangeData {
  val Folder = "_change_data"
  val FilePrefix = "cdc-"
}
