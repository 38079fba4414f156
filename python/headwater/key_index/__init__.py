"""Key indexes: in which file, and at which position of it, a key is.

Owns an index from its definition to an answer: which indexes a table has (:mod:`.definition`), how a key is hashed
(:mod:`.hashing`), the files that hold entries (:mod:`.segments`), and which rows may have some keys (:mod:`.lookup`).
Statements build and use it; it needs no Spark.

A data file never changes. So "a row with this key is at this position of this file" is true as long as the file is
part of the table. An index holds such entries for the data files that it covers, all rows of each, deleted ones too.

Promises:

1. *An entry is never wrong, only missing.* Of a file that no segment covers, all rows may have a key. A segment counts
   only for the table, the columns and the types that it was made for, and for a file of the same path and size.
2. *What cannot be read is missing.* A segment that is damaged, cut off or not readable covers no file. Readers verify
   the checksum of each column of a row group that they read.
3. *An entry is a hint.* Hashes collide, and rows are deleted later. Whoever uses an answer compares keys and leaves out
   deleted rows, as for any row that it reads.
4. *Nobody waits and nobody locks.* Segments have unique names, and are complete before the file that names their
   content is put. Other engines see none of it.
"""
