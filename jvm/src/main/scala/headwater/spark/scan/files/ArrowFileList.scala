package headwater.spark.scan.files

import headwater.spark.scan.rows.FileRowIds
import java.nio.file.{Files, Paths}

import scala.collection.mutable

import org.apache.arrow.memory.RootAllocator
import org.apache.arrow.vector.{BigIntVector, VarCharVector}
import org.apache.arrow.vector.ipc.ArrowStreamReader

/** Reads a long file list: an Arrow stream in a private temporary file, which is deleted afterwards. */
object ArrowFileList {
  def read(file: String, partitionColumns: Int): Iterator[ListedFile] = {
    val path = Paths.get(file)
    val out = mutable.ArrayBuffer.empty[ListedFile]
    val allocator = new RootAllocator()
    try {
      val in = Files.newInputStream(path)
      val reader = new ArrowStreamReader(in, allocator)
      try {
        val root = reader.getVectorSchemaRoot
        while (reader.loadNextBatch()) {
          def texts(i: Int) = root.getVector(i).asInstanceOf[VarCharVector]
          def text(vector: VarCharVector, row: Int) = if (vector.isNull(row)) null else vector.getObject(row).toString
          val paths = texts(0)
          val sizes = root.getVector(1).asInstanceOf[BigIntVector]
          val times = root.getVector(2).asInstanceOf[BigIntVector]
          val vectors = texts(3)
          val values = (0 until partitionColumns).map(i => texts(4 + i))
          def longs(i: Int) = root.getVector(i).asInstanceOf[BigIntVector]
          def long(vector: BigIntVector, row: Int) = Option.unless(vector.isNull(row))(vector.get(row))
          val rowIds =
            Option.when(root.getFieldVectors.size > 4 + partitionColumns)((longs(4 + partitionColumns), longs(5 + partitionColumns)))
          var row = 0
          while (row < root.getRowCount) {
            val known = rowIds.map { case (bases, versions) => FileRowIds(long(bases, row), long(versions, row)) }
            out += ListedFile(text(paths, row), sizes.get(row), times.get(row), values.map(text(_, row)), text(vectors, row), known)
            row += 1
          }
        }
      } finally { reader.close(); in.close() }
    } finally { allocator.close(); Files.deleteIfExists(path) }
    out.iterator
  }
}
