package headwater.spark.write

/** Where a job that writes both rows and change data puts the change data. */
object ChangeData {
  val Folder = "_change_data"
  val FilePrefix = "cdc-"

  /** The value of the change column in rows that are staged: they have the type of change as well, and are part of no version. */
  val Staged = "staged"

  /** How the names of their files begin. */
  val StagedPrefix = s"${FilePrefix}staged-"
}
