package headwater.spark.bridge

import java.io.IOException

/** A rename that failed, after which the temporary file could not be deleted: the rename may yet be done. */
final class TemporaryLeft(cause: IOException) extends IOException(cause)
