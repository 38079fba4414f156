package headwater.spark.bridge

import java.lang.ref.Cleaner
import java.net.URI
import java.util.{Collections, LinkedHashMap, Map => JavaMap, WeakHashMap}
import java.util.concurrent.CompletableFuture
import java.util.concurrent.atomic.AtomicReference

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, FilterFileSystem, FSDataInputStream, FSDataOutputStream, Path}
import org.apache.hadoop.fs.impl.OpenFileParameters
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.security.UserGroupInformation
import org.apache.hadoop.util.Progressable

/**
 * The file system of a scheme, made with the options of one table's user ([[StoreOptions]]), on the driver and on executors.
 *
 * Hadoop keeps file systems by scheme, authority and user, whatever settings they were made with, and would give the first one to
 * everybody. So [[StoreOptions]] has Hadoop make one of these at each use, and keep none. They lead to one real file system for each
 * set of options, which is closed when nobody can use it any more.
 */
final class FileSystemWithOptions extends FilterFileSystem {
  private var shared: SharedFileSystem = _

  override def initialize(name: URI, conf: Configuration): Unit = {
    shared = SharedFileSystem.of(name, conf)
    fs = shared.get
    super.initialize(name, conf)
  }

  /** The file system that does the work. It may be closed when this one is no longer in use. */
  def real: FileSystem = fs

  /** Who holds the real file system has not opened it. */
  override def close(): Unit = {}

  // A stream needs the file system that it was opened with, for longer than its opener perhaps.

  override def open(path: Path, bufferSize: Int): FSDataInputStream = shared.usedBy(fs.open(path, bufferSize))

  override protected def openFileWithOptions(path: Path, parameters: OpenFileParameters): CompletableFuture[FSDataInputStream] =
    super.openFileWithOptions(path, parameters).thenApply(stream => shared.usedBy(stream))

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable): FSDataOutputStream =
    shared.usedBy(fs.create(path, permission, overwrite, bufferSize, replication, blockSize, progress))
}

object FileSystemWithOptions {
  /** The real file system behind one of these; any other is its own. */
  def real(system: FileSystem): FileSystem = system match {
    case known: FileSystemWithOptions => known.real
    case other => other
  }
}

/** One real file system. It is closed when neither a [[FileSystemWithOptions]] nor a stream nor the list of those used last has this. */
private final class SharedFileSystem(name: URI, conf: Configuration) {
  private val made = new AtomicReference[FileSystem]
  SharedFileSystem.closeAfter(this, made)

  def get: FileSystem = synchronized {
    if (made.get == null) made.set(FileSystem.get(name, StoreOptions.ofRealFileSystem(name.getScheme, conf)))
    made.get
  }

  def usedBy[A <: AnyRef](stream: A): A = {
    SharedFileSystem.streams.put(stream, this)
    stream
  }
}

private object SharedFileSystem {
  /** So many are kept although nothing uses them at the moment. */
  private val MostKept = 64

  private final case class Key(identity: String, scheme: String, authority: String, user: UserGroupInformation)

  private val cleaner = Cleaner.create()
  private val streams = Collections.synchronizedMap(new WeakHashMap[AnyRef, SharedFileSystem])

  private val kept = new LinkedHashMap[Key, SharedFileSystem](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JavaMap.Entry[Key, SharedFileSystem]): Boolean = size > MostKept
  }

  def of(name: URI, conf: Configuration): SharedFileSystem = {
    val key = Key(
      StoreOptions.identity(conf),
      name.getScheme.toLowerCase,
      String.valueOf(name.getAuthority).toLowerCase,
      UserGroupInformation.getCurrentUser)
    kept.synchronized(kept.computeIfAbsent(key, _ => new SharedFileSystem(name, conf)))
  }

  private def closeAfter(user: SharedFileSystem, made: AtomicReference[FileSystem]): Unit = cleaner.register(
    user,
    () =>
      try Option(made.get).foreach(_.close())
      catch { case NonFatal(_) => })
}
