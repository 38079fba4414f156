package headwater.spark

import java.io.{FileNotFoundException, IOException}

import org.apache.hadoop.fs.{FileAlreadyExistsException, FileSystem, Path}
import org.apache.spark.sql.SparkSession

/** Hadoop's file systems for the handler: what it cannot reach as a local path. Arguments are URIs as text. */
final class HadoopFiles(session: SparkSession) {
  private lazy val conf = org.apache.spark.sql.headwater.SparkInternals.hadoopConf(session)

  private def on[T](uri: String)(body: (FileSystem, Path) => T): T = {
    val path = new Path(uri)
    body(path.getFileSystem(conf), path)
  }

  /** `[[path, size, modificationTime]]` of the files in a directory whose names are not before `startName`, sorted; null if there is none. */
  def listFrom(directory: String, startName: String): String = on(directory) { (fs, path) =>
    try {
      val found = fs.listStatus(path).filter(s => s.isFile && s.getPath.getName >= startName).sortBy(_.getPath.getName)
      Json.write(found.map(s => Seq(s.getPath.toString, s.getLen, s.getModificationTime)).toSeq)
    } catch { case _: FileNotFoundException => null }
  }

  /** A file's bytes; null if there is no such file. */
  def read(uri: String): Array[Byte] = on(uri) { (fs, path) =>
    try {
      val in = fs.open(path)
      try org.apache.commons.io.IOUtils.toByteArray(in) finally in.close()
    } catch { case _: FileNotFoundException => null }
  }

  /** `length` bytes from `offset`, fewer where the file ends before; null if there is no such file. */
  def readRange(uri: String, offset: Long, length: Int): Array[Byte] = on(uri) { (fs, path) =>
    try {
      val in = fs.open(path)
      try {
        in.seek(offset)
        in.readNBytes(length)
      } finally in.close()
    } catch { case _: FileNotFoundException => null }
  }

  /** Writes a file's content into a local one; false if there is no such file. */
  def copyToLocal(uri: String, local: String): Boolean = on(uri) { (fs, path) =>
    try {
      val in = fs.open(path)
      try java.nio.file.Files.copy(in, java.nio.file.Paths.get(local), java.nio.file.StandardCopyOption.REPLACE_EXISTING) finally in.close()
      true
    } catch { case _: FileNotFoundException => false }
  }

  def exists(uri: String): Boolean = on(uri)((fs, path) => fs.exists(path))

  def makeDirectory(uri: String): Unit = on(uri)((fs, path) => fs.mkdirs(path))

  def delete(uri: String): Unit = on(uri)((fs, path) => fs.delete(path, true))

  /** Writes a file, replacing one of that name. */
  def put(uri: String, data: Array[Byte]): Unit = on(uri) { (fs, path) =>
    val out = fs.create(path, true)
    try out.write(data) finally out.close()
  }

  /** Writes a file under a temporary name and renames it where nothing has the final name; false if something has. */
  def putIfAbsentByRename(uri: String, data: Array[Byte]): Boolean = on(uri) { (fs, path) =>
    val temporary = new Path(path.getParent, s".${path.getName}.${java.util.UUID.randomUUID()}.tmp")
    try {
      val out = fs.create(temporary, false)
      try out.write(data) finally out.close()
      if (fs.exists(path)) false else fs.rename(temporary, path)
    } catch { case _: FileAlreadyExistsException => false }
    finally {
      try fs.delete(temporary, false) catch { case _: IOException => }
    }
  }

  /** A path as Hadoop qualifies it: with scheme and authority. */
  def qualify(uri: String): String = on(uri)((fs, path) => fs.makeQualified(path).toString)
}
