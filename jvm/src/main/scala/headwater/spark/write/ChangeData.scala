package headwater.spark.write

/** Where a job that writes both rows and change data puts the change data. */
object ChangeData {
  val Folder = "_change_data"
  val FilePrefix = "cdc-"
}
