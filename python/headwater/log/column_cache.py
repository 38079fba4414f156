"""A cache on disk of the columns of large checkpoints, shared by the processes of a machine.

Owns the directory that the operator has named (off unless one is): uncompressed Arrow IPC files that are mapped into
memory, so that a process that opens a table after another parses nothing, both share the pages, and columns that nobody
looks at take no memory. What it holds is data of the log: bounds, counts, paths of files.

Promises:

1. *Rights.* Only who has opened the checkpoint's file with its own rights can ask for a column: the name of an entry is
   a digest of the file's path, size, time and last bytes, its footer among them, and of what its store is reached
   with. An overwritten file is another one.
2. *Nobody else's files.* The directory is this user's, closed to all others and no link; so are the files. Otherwise
   the cache is not used.
3. *Right or not there.* An entry appears whole, by a rename, and is never changed: a file that is cut off while it is
   mapped would end the process. Its length and checksum are compared before it is mapped. One that is spoiled, or that
   is of another schema, length or name than what is asked for, is deleted and counts as missing.
4. *Bounded.* Entries not used for longest go first. Any number of threads and processes may read, write and delete at
   once, and the directory may be deleted at any time.
5. *No error.* What fails here, a full disk or a directory that may not be written to, is logged once.

There is no lock on the directory: two processes that need the same column at the same time both read it from the
checkpoint, and the later one replaces the other's entry by an equal one.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

import pyarrow as pa

import headwater
from headwater.basics import clock, counts
from headwater.basics.warn_once import warn_once
from headwater.log.files import no_values
from headwater.protocol.properties import parse_bytes

#: The settings of Spark's start.
DIRECTORY = "spark.headwater.cache.directory"
MOST = "spark.headwater.cache.maxBytes"
#: Bytes of all entries, unless the operator says otherwise: paths, sizes and the bounds of a dozen columns of ten
#: million files (``python -m bench.column_cache``).
MOST_BYTES = 8 << 30
#: Bytes of a checkpoint's file from which on its columns are kept: a smaller one is read, with the bounds of a column,
#: in a tenth of a second (same bench, 40,000 files).
FEWEST_BYTES = 4 << 20
#: Goes into every name: raise it when what is kept under a name, or how it comes from a checkpoint, changes.
_FORMAT = 2
#: The bytes at a file's end that its digest is of; more where the footer is larger.
_TAIL_BYTES = 64 << 10
#: The end of an entry: magic, bytes of Arrow before it, rows, the entry's own name, checksum of all before.
_TRAILER = struct.Struct("<8sQQ32sI4x")
_MAGIC = b"HWCOLS01"
#: Bytes read at a time for the checksum.
_READ_BYTES = 1 << 20
_ENTRY = re.compile(r"[0-9a-f]{64}\.arrow")
_PARTIAL = re.compile(r"[0-9a-f]{32}\.tmp")
#: Seconds after which a file that was never finished is from a writer that died.
_ABANDONED_SECONDS = 3600
#: Seconds between two notes that an entry is in use.
_NOTED_SECONDS = 60
#: Seconds without a write after one has failed: on a full disk, each would write until it is full.
_REST_SECONDS = 600
_FAILURES = (OSError, pa.ArrowException)


class _Spoiled(Exception):
    """An entry that does not hold what its name says."""


class _Entry(NamedTuple):
    name: str
    bytes: int
    used: int  #: nanoseconds since the epoch


class ColumnCache:
    """The entries of a directory, which is made when the first one is written.

    :param most_bytes: of all entries together. What is mapped somewhere takes its place on the disk until it no longer
        is.
    """

    def __init__(self, directory: str, most_bytes: int = MOST_BYTES) -> None:
        self.directory = directory
        self._most_bytes = most_bytes
        #: What there may be when somebody looks.
        self._kept_bytes = most_bytes - most_bytes // 8
        self._rests_until = 0.0
        self._looking = Lock()
        #: Bytes of all entries, as this process knows them, and how many more it writes before it looks again.
        self._total, self._allowance = 0, 0

    def read(self, digest: str, schema: pa.Schema, rows: int | None) -> pa.Table | None:
        """The table of an entry, mapped; None if the entry does not exist.

        :param rows: how many rows it must have; None: any number.
        """
        path = os.path.join(self.directory, f"{digest}.arrow")
        found: pa.Table | None = None
        try:
            if self._is_there():
                found = _mapped(path, digest, schema, rows)
        except FileNotFoundError:
            pass
        except (_Spoiled, *_FAILURES, ValueError, KeyError) as error:
            warn_once(self.directory, f"an entry of the cache in {self.directory} is not used: {_reason(error)}")
            if not (isinstance(error, OSError) and error.errno):  # else nothing is known to be wrong with the entry
                with suppress(OSError):
                    os.unlink(path)
        counts.count("columnCacheMisses" if found is None else "columnCacheHits")
        return found

    def write(self, digest: str, table: pa.Table) -> pa.Table | None:
        """Keep a table; the same one mapped, or None if it could not be kept."""
        if time.monotonic() < self._rests_until:
            return None
        partial = os.path.join(self.directory, f"{secrets.token_hex(16)}.tmp")
        stored = table.select([name for name in table.column_names if table[name].null_count < table.num_rows])
        if stored.nbytes > self._kept_bytes:
            return None
        try:
            if not self._is_there(makes=True):
                return None
            looks = stored.nbytes > self._allowance
            if looks:
                self._make_room(stored.nbytes)
            try:
                written = _write(partial, digest, stored, table.num_rows)
                path = os.path.join(self.directory, f"{digest}.arrow")
                os.rename(partial, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(partial)
                raise
            if looks:
                self._make_room(0)
            else:
                self._take(written)
            return _mapped(path, digest, table.schema, table.num_rows)
        except FileNotFoundError:  # somebody deleted the directory, or made room, meanwhile
            return None
        except (_Spoiled, *_FAILURES) as error:
            self._rests_until = time.monotonic() + _REST_SECONDS
            warn_once(self.directory, f"nothing can be kept in the cache in {self.directory} for now: {_reason(error)}")
            return None

    def _is_there(self, makes: bool = False) -> bool:
        """Whether the directory is there and may be used.

        :param makes: make it, if it is not there.
        """
        if makes:
            os.makedirs(os.path.dirname(self.directory), exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(self.directory, 0o700)
        try:
            _check(os.lstat(self.directory), stat.S_ISDIR)
        except FileNotFoundError:
            return False
        except _Spoiled as error:
            warn_once(
                self.directory,
                f"{DIRECTORY} is not used: {self.directory} is {error}. It must be a directory of the user who "
                "runs Spark's driver, with the mode 0700",
            )
            return False
        return True

    def _entries(self) -> Iterator[_Entry]:
        """The entries, and files that are being written; what else lies there is left alone."""
        with os.scandir(self.directory) as found:
            for file in found:
                if _ENTRY.fullmatch(file.name) or _PARTIAL.fullmatch(file.name):
                    with suppress(FileNotFoundError):
                        status = file.stat(follow_symlinks=False)
                        yield _Entry(file.name, status.st_size, status.st_mtime_ns)

    def _make_room(self, needed: int) -> None:
        """Look at the entries, and delete old ones until there is room for so many bytes.

        With hundreds of entries, a look takes longer than to write one, so a process then writes some without another
        look. What looks keep free is enough for eight that do so at once.
        """
        with self._looking:
            entries = sorted(self._entries(), key=lambda entry: entry.used)
            total = sum(entry.bytes for entry in entries)
            abandoned = (clock.milliseconds() - _ABANDONED_SECONDS * 1000) * 1_000_000
            for entry in entries:
                is_whole = _ENTRY.fullmatch(entry.name) is not None
                if total + needed > self._kept_bytes if is_whole else entry.used < abandoned:
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(self.directory, entry.name))
                    total -= entry.bytes
            self._total, self._allowance = total, self._most_bytes // 64
        counts.level("columnCacheBytes", total)

    def _take(self, written: int) -> None:
        """Count what was written without a look."""
        with self._looking:
            self._total += written
            self._allowance -= written
        counts.level("columnCacheBytes", self._total)


class FileColumns:
    """The columns that a file of the log gave, each under a name of the caller's."""

    def __init__(self, cache: ColumnCache, identity: bytes) -> None:
        self._cache = cache
        self._identity = identity

    def read(self, name: str, schema: pa.Schema, rows: int | None = None) -> pa.Table | None:
        """The table that was kept under a name, mapped; None if no entry has this schema and length."""
        return self._cache.read(self._digest(name), schema, rows)

    def write(self, name: str, table: pa.Table) -> pa.Table | None:
        """Keep a table; the same one, mapped, or None if it could not be kept."""
        return self._cache.write(self._digest(name), table)

    def _digest(self, name: str) -> str:
        return hashlib.sha256(self._identity + name.encode("utf-8", "surrogatepass")).hexdigest()


_cache: ColumnCache | None = None


def configure(settings: Mapping[str, str]) -> None:
    """Use the directory that settings name, given without ``spark.headwater.cache.``; none, where they name none."""
    global _cache
    _cache = None
    directory = os.path.expanduser(settings.get("directory", "").strip())
    if not directory:
        return
    if not os.path.isabs(directory) or not hasattr(os, "geteuid"):
        warn_once(directory, f"{DIRECTORY} is not used: {directory} is no absolute path of a POSIX system")
        return
    most_bytes = MOST_BYTES
    try:
        most_bytes = parse_bytes(settings.get("maxBytes", "").strip() or str(MOST_BYTES))
    except ValueError:
        warn_once(directory, f"{MOST} is not used: {settings['maxBytes']} is no size like 8g")
    _cache = ColumnCache(os.path.normpath(directory), most_bytes)


def columns_of(path: str, file: pa.NativeFile, modified: int | None, identity: str) -> FileColumns | None:
    """What is kept of a Parquet file of the log; None if there is no cache, or the file is small.

    :param file: as the session's store has opened it.
    :param modified: its time, if that is known.
    :param identity: that of the store. Who names an endpoint of his own, where a file of the same path and end is,
        gives nothing to others.
    """
    cache = _cache
    if cache is None or (size := file.size()) < FEWEST_BYTES:
        return None
    try:
        footer = int.from_bytes(file.read_at(8, size - 8)[:4], "little") + 8
        length = min(max(footer, _TAIL_BYTES), size)
        tail = hashlib.sha256(file.read_at(length, size - length)).hexdigest()
    except _FAILURES:  # who reads the file itself gets the error
        return None
    parts = (_FORMAT, headwater.__version__, pa.__version__, identity, path, size, modified, tail)
    return FileColumns(cache, hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest())


def _reason(error: Exception) -> str:
    """What happened, without the name of an entry: so it is logged once."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _check(status: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    """Refuse what is not of the kind, or that others than this user may have written to."""
    if not is_kind(status.st_mode):
        raise _Spoiled("a link, or of another kind")
    if status.st_uid != os.geteuid():
        raise _Spoiled("of another user")
    if status.st_mode & 0o077:
        raise _Spoiled(f"open to others, with the mode {stat.S_IMODE(status.st_mode):04o}")


def _write(path: str, digest: str, table: pa.Table, rows: int) -> int:
    """Write an entry; how many bytes it has."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
            raise FileNotFoundError(path)  # somebody has deleted the first one
        length = os.fstat(descriptor).st_size
        checksum = _checksum(descriptor, length)
        parts = (_MAGIC, length, rows, bytes.fromhex(digest))
        checksum = zlib.crc32(_TRAILER.pack(*parts, 0), checksum)
        file.seek(length)
        file.write(_TRAILER.pack(*parts, checksum))
    return length + _TRAILER.size


def _checksum(descriptor: int, length: int) -> int:
    """Of the first bytes of a file. They are read, and not mapped: a mapped page counts as this process's."""
    checksum, at = 0, 0
    while at < length:
        piece = os.pread(descriptor, min(_READ_BYTES, length - at), at)
        if not piece:
            raise _Spoiled("cut off")
        checksum = zlib.crc32(piece, checksum)
        at += len(piece)
    return checksum


def _mapped(path: str, digest: str, schema: pa.Schema, rows: int | None) -> pa.Table:
    """The table of an entry.

    :raises _Spoiled: it is not what it should be.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        _check(status, stat.S_ISREG)
        length, found = _read_trailer(descriptor, status.st_size, digest)
        if rows is not None and found != rows:
            raise _Spoiled(f"{found} rows in place of {rows}")
        _note_use(path, status)
        with pa.memory_map(path) as file:
            if not os.path.samestat(os.fstat(file.fileno()), status) or file.size() != status.st_size:
                raise FileNotFoundError(path)  # another process has just replaced it by an equal one
            content = file.read_buffer(length)
    finally:
        os.close(descriptor)
    table = pa.ipc.open_file(content).read_all()
    if table.num_rows != found and table.num_columns:
        raise _Spoiled(f"{table.num_rows} rows in place of {found}")
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.chunked_array([no_values(field.type, found)]))
        elif table.schema.field(field.name).type == field.type:
            columns.append(table[field.name])
        else:
            raise _Spoiled(f"the column {field.name} has another type")
    return pa.table(columns, schema=schema)


def _read_trailer(descriptor: int, size: int, digest: str) -> tuple[int, int]:
    """How many bytes of Arrow an entry has, and how many rows, once all of it is as it was written."""
    end = os.pread(descriptor, _TRAILER.size, max(size - _TRAILER.size, 0))
    if len(end) != _TRAILER.size:
        raise _Spoiled("cut off")
    magic, length, rows, name, checksum = _TRAILER.unpack(end)
    if magic != _MAGIC or length + _TRAILER.size != size or name.hex() != digest:
        raise _Spoiled("no entry of that name")
    unchecked = _TRAILER.pack(magic, length, rows, name, 0)
    if zlib.crc32(unchecked, _checksum(descriptor, length)) != checksum:
        raise _Spoiled("damaged")
    return length, rows


def _note_use(path: str, status: os.stat_result) -> None:
    """Give the file a new time, by which the order of use is known: file systems mostly note no reads."""
    if status.st_mtime_ns < (clock.milliseconds() - _NOTED_SECONDS * 1000) * 1_000_000:
        with suppress(OSError):
            os.utime(path)
