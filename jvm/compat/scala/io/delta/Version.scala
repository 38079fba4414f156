package io.delta

/** The version of Delta Lake whose names and interfaces this JAR has: catalogs that wrap Delta's ask for it. */
object Version {
  def getVersion: String = "4.4.0"
}
