package org.apache.spark.sql.headwater.write

import java.io.{FileNotFoundException, IOException}
import java.nio.channels.FileChannel
import java.nio.file.{Files, NoSuchFileException, Paths, StandardCopyOption, StandardOpenOption}

import scala.util.Using

import headwater.spark.bridge.{FileSystemWithOptions, HadoopFiles, StoreOptions}
import headwater.spark.bridge.messages.{CopiedFile, CopiedFiles, CopySpecification, FileCopy}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.util.functional.FutureIO
import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.util.SerializableConfiguration

/**
 * Copies files by tasks, between any two stores. A file has its name only when it is complete, and one that is there with the size of its
 * source is not copied again, so that a job which was cut off goes on where it was.
 */
object CopyJob {
  private val BufferBytes = 1 << 20

  def run(session: SparkSession, wanted: CopySpecification, from: StoreOptions, to: StoreOptions): CopiedFiles = {
    val spark = session.sparkContext
    val confs = spark.broadcast((
      new SerializableConfiguration(from.configuration(session)),
      new SerializableConfiguration(to.configuration(session))))
    val renames = wanted.renames
    try CopiedFiles(
        spark.parallelize(wanted.tasks, wanted.tasks.size.max(1))
          .mapPartitions { tasks =>
            val (source, target) = confs.value
            tasks.flatten.map(new CopyJob(source.value, target.value, renames).copy)
          }
          .collect().toSeq)
    finally confs.destroy()
  }
}

private final class CopyJob(source: Configuration, target: Configuration, renames: Boolean) {

  /** The size of the file that is to be copied, None if it is gone, and whether it was copied: not if its size is not the expected one. */
  def copy(file: FileCopy): CopiedFile = {
    val (from, to) = (new Path(file.source), new Path(file.target))
    val (reads, writes) = (system(from, source), system(to, target))
    HadoopFiles.status(reads, from) match {
      case None => CopiedFile(None, copied = false)
      case Some(found) if file.size.exists(_ != found.getLen) => CopiedFile(Some(found.getLen), copied = false)
      case Some(found) if HadoopFiles.status(writes, to).exists(_.getLen == found.getLen) => CopiedFile(Some(found.getLen), copied = false)
      case Some(found) =>
        try {
          if (isLocal(reads) && isLocal(writes)) copyLocally(found, to) else copy(reads, found, writes, to)
          CopiedFile(Some(found.getLen), copied = true)
        } catch {
          case e: IOException => e match {
              // The file that is written is none that is missing.
              case _: FileNotFoundException | _: NoSuchFileException if HadoopFiles.status(reads, from).isEmpty =>
                CopiedFile(None, copied = false)
              case _ => throw failed(to, e)
            }
        }
    }
  }

  private def system(path: Path, conf: Configuration): FileSystem = FileSystemWithOptions.real(path.getFileSystem(conf))

  /** Spark's own is one of Hive, derived from these. */
  private def isLocal(fs: FileSystem): Boolean = fs.isInstanceOf[LocalFileSystem] || fs.isInstanceOf[RawLocalFileSystem]

  /** Without the checksums that Hadoop keeps of local files, and through no buffer. */
  private def copyLocally(found: FileStatus, to: Path): Unit = {
    val (last, temporary) = (Paths.get(to.toUri.getPath), Paths.get(HadoopFiles.temporary(to).toUri.getPath))
    Files.createDirectories(last.getParent)
    try {
      Using.resource(FileChannel.open(Paths.get(found.getPath.toUri.getPath), StandardOpenOption.READ)) { in =>
        Using.resource(FileChannel.open(temporary, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW)) { out =>
          var done = 0L
          while (done < found.getLen) {
            checkKilled()
            val count = in.transferTo(done, (found.getLen - done).min(64L * CopyJob.BufferBytes), out)
            if (count <= 0) throw endedAfter(found, done)
            done += count
          }
        }
      }
      Files.move(temporary, last, StandardCopyOption.ATOMIC_MOVE)
    } finally Files.deleteIfExists(temporary)
  }

  private def copy(reads: FileSystem, found: FileStatus, writes: FileSystem, to: Path): Unit = {
    val written = if (renames) HadoopFiles.temporary(to) else to
    val opening = reads.openFile(found.getPath).withFileStatus(found).opt("fs.option.openfile.read.policy", "whole-file")
    Using.resource(FutureIO.awaitFuture(opening.build())) { in =>
      try {
        HadoopFiles.write(writes.createFile(written).create().recursive().overwrite(true).build()) { out =>
          val buffer = new Array[Byte](CopyJob.BufferBytes)
          var done = 0L
          while (done < found.getLen) {
            checkKilled()
            val count = in.read(buffer, 0, (found.getLen - done).min(buffer.length).toInt)
            if (count < 0) throw endedAfter(found, done)
            out.write(buffer, 0, count)
            done += count
          }
        }
        // Another attempt of the task may have been first.
        if (renames && !writes.rename(written, to) && !HadoopFiles.status(writes, to).exists(_.getLen == found.getLen)) {
          throw new IOException(s"$written could not be renamed to $to")
        }
      } finally if (renames) HadoopFiles.deleteQuietly(writes, written)
    }
  }

  /** As a task that writes rows says it. */
  private def failed(to: Path, cause: IOException) = QueryExecutionErrors.taskFailedWhileWritingRowsError(to.getParent.toString, cause)

  private def endedAfter(found: FileStatus, bytes: Long) =
    new IOException(s"${found.getPath} ended after $bytes of ${found.getLen} bytes")

  private def checkKilled(): Unit = Option(TaskContext.get()).foreach(_.killTaskIfInterrupted())
}
