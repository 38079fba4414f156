package headwater.spark.bridge

import java.io.{FileNotFoundException, IOException, OutputStream}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Files, Paths, StandardCopyOption, StandardOpenOption}
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  Abortable, EtagSource, FileAlreadyExistsException, FileContext, FileStatus, FileSystem, FSDataOutputStream, Options, Path, PathIOException
}
import org.apache.hadoop.fs.viewfs.ViewFileSystem
import org.apache.hadoop.hdfs.DistributedFileSystem
import org.apache.hadoop.hdfs.web.WebHdfsFileSystem
import org.apache.hadoop.util.functional.FutureIO

/**
 * Hadoop's file systems, for the handler to reach every path that is not local. Arguments are URIs. A missing file is null, a name that
 * exists already is false; every other failure is a [[StoreFailure]].
 *
 * @param conf of the session
 * @param store what was given to reach a URI
 * @param configured the configuration with what was given
 */
final class HadoopFiles(conf: Configuration, store: String => StoreOptions, configured: StoreOptions => Configuration) {
  def this(conf: Configuration) = this(conf, _ => StoreOptions.none, _ => conf)

  /** Hadoop caches file systems for the whole process unless a setting forbids it; then a statement has one of each. */
  private val systems = new ConcurrentHashMap[(String, String), FileSystem]

  private def system(path: Path): FileSystem = {
    val options = store(path.toString)
    FileSystemWithOptions.real(systems.computeIfAbsent(
      (options.identity, s"${path.toUri.getScheme}://${path.toUri.getAuthority}"),
      _ => path.getFileSystem(if (options.isEmpty) conf else configured(options))))
  }

  private def on[T](uri: String)(body: (FileSystem, Path) => T): T = StoreFailure.wrapping {
    val path = HadoopFiles.path(uri)
    body(system(path), path)
  }

  private def located(uris: String): Seq[(FileSystem, Path)] =
    Json.strings(Json.parse(uris)).map(HadoopFiles.path).map(path => (system(path), path))

  /** Facts of the path's file system: its URI, its endpoint, whether it can create files conditionally, Hadoop's version. */
  def describe(uri: String): String = on(uri) { (fs, path) =>
    Json.write(Map[String, Any](
      "uri" -> fs.getUri.toString,
      "endpoint" -> HadoopFiles.endpoints(fs.getUri.getScheme).map(fs.getConf.get(_, "")).find(_.nonEmpty).getOrElse(""),
      "createsConditionally" -> fs.hasPathCapability(path, HadoopFiles.ConditionalCreate),
      "hadoop" -> org.apache.hadoop.util.VersionInfo.getVersion))
  }

  /** The scheme of the file system that a mount table maps a path to. */
  def mountedScheme(uri: String): String = on(uri) { (fs, path) =>
    val there = Iterator.iterate(path)(_.getParent).takeWhile(_ != null).find(fs.exists(_)).getOrElse(path)
    fs.resolvePath(there).toUri.getScheme
  }

  /**
   * `[[path, size, modificationTime, tag]]` of the files in a directory from the name `startName` on, sorted; null without a directory.
   */
  def listFrom(directory: String, startName: String): String = on(directory) { (fs, path) =>
    try {
      val found = fs.listStatus(path).filter(s => s.isFile && s.getPath.getName >= startName).sortBy(_.getPath.getName)
      Json.write(found.map(s => Seq[Any](s.getPath.toString, s.getLen, s.getModificationTime, HadoopFiles.tag(s))).toSeq)
    } catch { case _: FileNotFoundException => null }
  }

  /** `[size, modificationTime, tag]` of each path (JSON array), null where there is no file. The requests run in parallel. */
  def statuses(uris: String): String = StoreFailure.wrapping {
    Json.write(StoreRequests.each(located(uris)) { case (fs, path) => HadoopFiles.status(fs, path) }
      .map(_.map(s => Seq[Any](s.getLen, s.getModificationTime, HadoopFiles.tag(s)))))
  }

  /** A file's bytes; null if there is no such file. */
  def read(uri: String): Array[Byte] = on(uri) { (fs, path) =>
    try {
      val in = fs.open(path)
      try in.readAllBytes()
      finally in.close()
    } catch { case _: FileNotFoundException => null }
  }

  /**
   * Concatenates the files (JSON array) into an existing local file. Returns JSON: the size of each, null for a missing one, in which case
   * nothing is written. Files are read in parallel, each through a small buffer, so their sizes do not matter.
   */
  def readMany(uris: String, local: String): String = StoreFailure.wrapping {
    val paths = located(uris)
    val found = StoreRequests.each(paths) { case (fs, path) => HadoopFiles.status(fs, path) }
    if (found.forall(_.isDefined)) {
      val offsets = found.scanLeft(0L)(_ + _.get.getLen)
      val out = FileChannel.open(Paths.get(local), StandardOpenOption.WRITE)
      try StoreRequests.each(paths.zip(found.flatten).zip(offsets)) { case (((fs, _), status), offset) =>
          HadoopFiles.copy(fs, status, out, offset)
        }
      finally out.close()
    }
    Json.write(found.map(_.map(_.getLen)))
  }

  /** `length` bytes from `offset` on, fewer if the file ends before; null if there is no such file. */
  def readRange(uri: String, offset: Long, length: Int): Array[Byte] = on(uri) { (fs, path) =>
    try {
      val in = fs.open(path)
      try {
        in.seek(offset)
        in.readNBytes(length)
      } finally in.close()
    } catch { case _: FileNotFoundException => null }
  }

  /** Copies a file to a local one; false if there is no such file. */
  def copyToLocal(uri: String, local: String): Boolean = on(uri) { (fs, path) =>
    try {
      val in = fs.open(path)
      try Files.copy(in, Paths.get(local), StandardCopyOption.REPLACE_EXISTING)
      finally in.close()
      true
    } catch { case _: FileNotFoundException => false }
  }

  /** Whether each path (JSON array) is one of a file or a directory. The requests run in parallel. */
  def exist(uris: String): String = StoreFailure.wrapping {
    Json.write(StoreRequests.each(located(uris)) { case (fs, path) => fs.exists(path) })
  }

  def makeDirectory(uri: String): Unit = on(uri)((fs, path) => fs.mkdirs(path))

  def delete(uri: String): Unit = on(uri)((fs, path) => fs.delete(path, false))

  /**
   * Writes the entries of directories (JSON array) into an existing local file, each as a line of JSON: `[is a directory, path, size,
   * modificationTime]`. With `deep`, these are all files below them. A missing directory has none. The requests run in parallel.
   */
  def entries(uris: String, deep: Boolean, local: String): Unit = StoreFailure.wrapping {
    val out = Files.newBufferedWriter(Paths.get(local))
    try StoreRequests.each(located(uris)) { case (fs, path) => HadoopFiles.lines(fs, path, deep) }.foreach(_.foreach { line =>
        out.write(line); out.write('\n')
      })
    finally out.close()
  }

  /**
   * Deletes files (JSON array) below a directory, a page in each request, in parallel. Returns `[[path, reason]]` of those that are left.
   */
  def deleteMany(directory: String, uris: String): String = on(directory) { (fs, path) =>
    val bulk = fs.createBulkDelete(path)
    try {
      val pages = Json.strings(Json.parse(uris)).grouped(bulk.pageSize()).toSeq
      val failed = StoreRequests.each(pages) { page =>
        try bulk.bulkDelete(page.map(new Path(_)).asJava).asScala.map(left => Seq(left.getKey.toString, left.getValue)).toSeq
        catch { case e: IOException => page.map(uri => Seq(uri, Option(e.getMessage).getOrElse(e.toString))) }
      }
      Json.write(failed.flatten)
    } finally bulk.close()
  }

  /** Deletes an empty directory; false if something is in it. */
  def deleteEmpty(uri: String): Boolean = on(uri) { (fs, path) =>
    try fs.delete(path, false) || !fs.exists(path)
    catch { case _: PathIOException | _: FileAlreadyExistsException => false } // Azure has the latter for one that is not empty
  }

  /** Writes a file and replaces one of that name: for stores where a file appears only when it is complete. */
  def put(uri: String, data: Array[Byte]): Unit =
    on(uri)((fs, path) => HadoopFiles.write(fs.createFile(path).create().recursive().overwrite(true).build(), data))

  /** Creates a file if there is none (put-if-absent); false if there is one. */
  def createConditionally(uri: String, data: Array[Byte]): Boolean = on(uri) { (fs, path) =>
    try {
      HadoopFiles.write(fs.createFile(path).create().recursive().must(HadoopFiles.ConditionalCreate, true).build(), data)
      true
    } catch { case e: IOException if StoreFailure.isConditionNotMet(e) => false }
  }

  /** Creates a file if there is none when it is complete; false if there is one. For stores where a file appears only then. */
  def createExclusively(uri: String, data: Array[Byte]): Boolean = on(uri) { (fs, path) =>
    unlessTaken(HadoopFiles.complete(fs.create(path, false), data))
  }

  /** Begins to create a file twice, and completes both; how many were not refused. */
  def createsThatWin(uri: String): Int = on(uri) { (fs, path) =>
    val begun = Seq.fill(2)(fs.create(path, false))
    begun.count(out => unlessTaken(HadoopFiles.complete(out, Array[Byte](1))))
  }

  /** Renames so many files to one name at once; how many were not refused. */
  def renamesThatWin(uri: String, count: Int): Int = on(uri) { (fs, path) =>
    val temporaries = StoreRequests.each(Seq.fill(count)(path))(HadoopFiles.written(fs, _, Array[Byte](1)))
    try StoreRequests.each(temporaries)(file => unlessTaken(if (!fs.rename(file, path)) throw HadoopFiles.taken(path))).count(identity)
    finally StoreRequests.each(temporaries)(HadoopFiles.deleteQuietly(fs, _))
  }

  private def unlessTaken(create: => Unit): Boolean = try { create; true }
  catch { case e: IOException if StoreFailure.isTaken(e) => false }

  /** Writes a file under a temporary name and renames it; replaces one of that name. */
  def putByRename(uri: String, data: Array[Byte]): Unit =
    on(uri)((fs, path) => rename(fs, HadoopFiles.written(fs, path, data), path, Options.Rename.OVERWRITE))

  /**
   * Writes a file under a temporary name and renames it if the final name is free; false if it is taken. After a failure other than a
   * [[TemporaryLeft]], no rename that is on its way finds the temporary file.
   */
  def createByRename(uri: String, data: Array[Byte]): Boolean = on(uri) { (fs, path) =>
    val temporary = HadoopFiles.written(fs, path, data) // its name is not the one that may be taken
    unlessTaken(rename(fs, temporary, path, Options.Rename.NONE))
  }

  private def rename(fs: FileSystem, temporary: Path, path: Path, how: Options.Rename): Unit =
    try fs match {
        case hdfs: DistributedFileSystem => hdfs.rename(temporary, path, how)
        case web: WebHdfsFileSystem => web.rename(temporary, path, how)
        case _: ViewFileSystem =>
          FileContext.getFileContext(fs.getUri, if (store(path.toString).isEmpty) conf else fs.getConf).rename(temporary, path, how)
        case _ => HadoopFiles.rename(fs, temporary, path, how == Options.Rename.OVERWRITE)
      }
    catch {
      case e: Throwable =>
        val deleted = HadoopFiles.deleteQuietly(fs, temporary)
        throw (e match {
          case failure: IOException if !deleted && !StoreFailure.isInterrupt(failure) => new TemporaryLeft(failure)
          case _ => e
        })
    }
}

object HadoopFiles {
  /** Hadoop's name, since 3.4.2, of both the option and the capability. */
  val ConditionalCreate = "fs.option.create.conditional.overwrite"
  private val BufferBytes = 64 * 1024
  private val MostReplacements = 5
  private val MostTemporaries = 3

  /** The settings that name a server, beside the path. */
  private def endpoints(scheme: String): Seq[String] = scheme match {
    case "s3a" | "s3" => Seq(s"fs.$scheme.endpoint", "fs.s3a.endpoint")
    case "gs" => Seq("fs.gs.storage.root.url")
    case "oci" => Seq("fs.oci.client.hostname")
    case _ => Nil
  }

  /** A URI's path. That of a whole bucket or container ends with a slash: without one, Hadoop takes it for a relative path. */
  def path(uri: String): Path = {
    val found = new Path(uri)
    if (found.toUri.getPath.isEmpty) new Path(found, Path.SEPARATOR) else found
  }

  def temporary(path: Path): Path = new Path(path.getParent, s".${path.getName}.${UUID.randomUUID()}.tmp")

  private def taken(path: Path) = new FileAlreadyExistsException(s"$path exists")

  /** Deletes a file, if it is there; whether the store has acknowledged that it is not. */
  def deleteQuietly(fs: FileSystem, path: Path): Boolean = try { fs.delete(path, false); true }
  catch { case _: IOException => false }

  /**
   * Writes a file under a temporary name beside `path`. If that is taken, it is this file's own: the answer to its create was lost, and the
   * client asked again. So the next try has another name: a create that is on its way never meets a file that is being written.
   */
  @tailrec private def written(fs: FileSystem, path: Path, data: Array[Byte], tries: Int = MostTemporaries): Path = {
    val file = temporary(path)
    val failure = try { write(fs.create(file, false), data); None }
    catch {
      case e: Throwable =>
        deleteQuietly(fs, file)
        e match {
          case failed: IOException if StoreFailure.isTaken(failed) => Some(failed)
          case _ => throw e
        }
    }
    failure match {
      case None => file
      case Some(failed) if tries > 1 => written(fs, path, data, tries - 1)
      case Some(failed) => throw failed
    }
  }

  /**
   * Renames a file by the rename that every file system has. Its answer alone says whether it did: to look whether the new name is free, as
   * Hadoop's other renames do, is no promise. Those that never replace have the old file deleted before, if it is to be replaced.
   */
  private def rename(fs: FileSystem, from: Path, to: Path, replaces: Boolean): Unit = {
    val done = Iterator.range(0, if (replaces) MostReplacements else 1).exists { attempt =>
      if (attempt > 0) fs.delete(to, false)
      try fs.rename(from, to)
      catch { case e: IOException if StoreFailure.isTaken(e) => false }
    }
    if (!done) throw (if (fs.exists(to)) taken(to) else new IOException(s"$from could not be renamed to $to"))
  }

  /** Writes a whole file. If that fails, it is not closed, which would create a file of what is written so far. */
  private def complete(out: FSDataOutputStream, data: Array[Byte]): Unit = {
    out.write(data)
    out.close()
  }

  private def lines(fs: FileSystem, directory: Path, deep: Boolean): Seq[String] = {
    def line(entry: FileStatus) = Json.write(Seq[Any](entry.isDirectory, entry.getPath.toString, entry.getLen, entry.getModificationTime))
    val found = Seq.newBuilder[String]
    try {
      if (deep) {
        val files = fs.listFiles(directory, true)
        while (files.hasNext) found += line(files.next())
      } else {
        val entries = fs.listStatusIterator(directory)
        while (entries.hasNext) found += line(entries.next())
      }
    } catch { case _: FileNotFoundException => }
    found.result()
  }

  /** A file's ETag, empty if the file system has none. Some servers put it into quotes only for a single object. */
  private def tag(status: FileStatus): String = status match {
    case tagged: EtagSource => Option(tagged.getEtag).fold("")(_.replace("\"", ""))
    case _ => ""
  }

  def status(fs: FileSystem, path: Path): Option[FileStatus] =
    try Some(fs.getFileStatus(path)).filter(_.isFile)
    catch { case _: FileNotFoundException => None }

  private def write(out: FSDataOutputStream, data: Array[Byte]): Unit = write(out)(_.write(data))

  /** Writes a whole file and syncs it. If writing fails, no file is created where the store can abort. */
  def write(out: FSDataOutputStream)(body: OutputStream => Unit): Unit = {
    try {
      body(out)
      if (out.hasCapability("hsync")) out.hsync()
    } catch {
      case e: Throwable => // closing would create a file of what is written so far
        out.getWrappedStream match {
          case stream: Abortable if out.hasCapability("fs.capability.outputstream.abortable") => stream.abort()
          case _ => try out.close()
            catch { case _: IOException => }
        }
        throw e
    }
    out.close()
  }

  /** Copies a file into a local one, from `offset` on. */
  private def copy(fs: FileSystem, status: FileStatus, out: FileChannel, offset: Long): Unit = if (status.getLen > 0) {
    val opening = fs.openFile(status.getPath).withFileStatus(status).opt("fs.option.openfile.read.policy", "whole-file")
    val in = FutureIO.awaitFuture(opening.build())
    try {
      val buffer = new Array[Byte](BufferBytes.toLong.min(status.getLen).toInt)
      var done = 0L
      while (done < status.getLen) {
        val count = in.read(buffer, 0, (status.getLen - done).min(buffer.length).toInt)
        if (count < 0) throw new IOException(s"${status.getPath} ended after $done of ${status.getLen} bytes")
        val bytes = ByteBuffer.wrap(buffer, 0, count)
        while (bytes.hasRemaining) out.write(bytes, offset + done + bytes.position())
        done += count
      }
    } finally in.close()
  }
}
