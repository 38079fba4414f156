"""The files that hold the entries of an index.

Owns their format and their folder, ``_headwater/index/<name>`` of the table. A *segment* is the entries of some data
files: one or more *parts*, Parquet files with a row for each entry, and a *manifest*, which is put last and makes the
parts count. A part has three columns, sorted by the first: ``h``, the hash of the key (:mod:`.hashing`); ``f``, the
number of the data file in the manifest; ``r``, the position of the row in it.

A manifest is JSON, followed by its CRC-32 on a line of its own. It names the table's id, the columns by their physical
names, their kinds, the data files by path and size as the log has them, and the parts, each with its size and the
CRC-32 of its footer and of each column of each row group. So no damage goes unnoticed: the checksums of Parquet's
pages leave out their headers.

Promises: names are unique, so nothing is replaced; a name in a manifest never leads out of the folder; parts without a
manifest are of a build that runs or was cut off, and :func:`delete_unneeded` deletes them after a day.
"""

from __future__ import annotations

import bisect
import io
import logging
import re
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.basics.recent import Recent
from headwater.key_index.definition import KeyIndex, is_name
from headwater.log.snapshot import Snapshot
from headwater.stores import FileInfo, Store
from headwater.stores.interface import in_parallel

_LOG = logging.getLogger(__name__)

FOLDER = "_headwater/index"
#: The columns of a part: hash, file, position.
PART_SCHEMA = pa.schema([pa.field("h", pa.int64()), pa.field("f", pa.int32()), pa.field("r", pa.int64())])
#: A row group has about so many bytes: a lookup of one key reads one of each part that may have it.
ROW_GROUP_BYTES = 4 << 20
_ROWS_OF_GROUP = ROW_GROUP_BYTES // 8
#: Format 1 had hashes of 48 bits.
_FORMAT = 2
_MANIFEST = ".json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FOOTER_END = 8
#: For so long, in milliseconds, what the newest version does not need stays: a build may still run whose parts no
#: manifest names, and RESTORE may bring back files. What newer segments cover stays for a shorter time after them: a
#: reader that has just listed it opens it, or does without.
_STAYS, _REPLACED_STAYS = 24 * 3_600_000, 15 * 60_000
#: Segments of up to so many entries in all are merged in memory.
_MERGED_ENTRIES = 4_000_000
#: More segments than this with fewer entries than that are merged.
_MOST_SMALL = 8


class Part(msgspec.Struct, frozen=True):
    """A Parquet file of a segment.

    :param footer: the CRC-32 of the footer and its length, of ``footer_size`` bytes at the end of the file.
    :param chunks: those of the columns of its row groups, one row group after the other.
    """

    name: str
    size: int
    rows: int
    footer_size: int
    footer: int
    chunks: list[int]


class Manifest(msgspec.Struct, frozen=True):
    """What a segment covers. ``files``: path and size of each data file, as the log has them."""

    format: int
    table: str
    columns: list[str]
    kinds: list[str]
    files: list[tuple[str, int]]
    parts: list[Part]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


class Segment(NamedTuple):
    """A segment that fits an index of a version.

    :param info: its manifest's file.
    :param files: for each data file of the manifest, its row in ``snapshot.files``; -1 if it is not of the version.
    """

    info: FileInfo
    manifest: Manifest
    files: np.ndarray[Any, np.dtype[np.int64]]


class Coverage(NamedTuple):
    """How much of a version an index covers.

    :param files: data files with entries; ``all_files``: data files of the version.
    :param size: bytes of the index's files; ``segments``: how many segments they are.
    """

    files: int
    all_files: int
    size: int
    segments: int


#: What is read of segments, which never change.
_MANIFESTS: Recent[FileInfo, Manifest] = Recent(1000)
_FOOTERS: Recent[tuple[str, int], pq.FileMetaData] = Recent(1000)
#: The manifests of segments that were found to be damaged: what they cover is to be built again.
_DAMAGED: Recent[FileInfo, None] = Recent(1000)


def note_damage(segment: Segment, error: Exception) -> None:
    """Have a segment whose parts could not be read count no more; one that is only out of reach stays."""
    if isinstance(error, ValueError):
        _DAMAGED[segment.info] = None
    _LOG.warning("%s: not used: %s", segment.info.path, error)


def folder_of(table_path: str, name: str) -> str:
    """The folder of an index."""
    return f"{table_path}/{FOLDER}/{name}"


def coverage(snapshot: Snapshot, index: KeyIndex) -> Coverage:
    """How much of a version an index covers."""
    found = segments(snapshot, index)
    return Coverage(
        int(covered(snapshot, found).sum()),
        snapshot.num_files,
        sum(segment.manifest.size for segment in found),
        len(found),
    )


def covered(snapshot: Snapshot, found: Iterable[Segment]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each file of a version, whether segments cover it."""
    mask = np.zeros(snapshot.num_files, bool)
    for segment in found:
        mask[segment.files[segment.files >= 0]] = True
    return mask


def segments(snapshot: Snapshot, index: KeyIndex) -> list[Segment]:
    """The segments of an index that fit a version; those whose entries cannot be trusted are left out."""
    return [segment for segment in _all(snapshot, index) if (segment.files >= 0).any()]


def _all(snapshot: Snapshot, index: KeyIndex) -> list[Segment]:
    """The same, with those of data files that are all gone."""
    listed = _listed(snapshot.store, folder_of(snapshot.table_path, index.name))
    return _fitting(snapshot, index, listed, _manifests(snapshot.store, listed))


def _manifests(store: Store, listed: Iterable[FileInfo]) -> dict[FileInfo, Manifest]:
    """Those that can be read."""
    infos = [info for info in listed if info.name.endswith(_MANIFEST) and info not in _DAMAGED]
    return {info: manifest for info in infos if (manifest := _manifest(store, info)) is not None}


def _fitting(
    snapshot: Snapshot, index: KeyIndex, listed: Iterable[FileInfo], manifests: Mapping[FileInfo, Manifest]
) -> list[Segment]:
    sizes = {info.name: info.size for info in listed}
    fitting = [
        (info, manifest)
        for info, manifest in manifests.items()
        if manifest.table == snapshot.metadata.id
        and manifest.columns == index.physical_names
        and manifest.kinds == index.kinds
        and all(sizes.get(part.name) == part.size for part in manifest.parts)
    ]
    if not fitting:
        return []
    named = [file for _, manifest in fitting for file in manifest.files]
    ends = np.cumsum([len(manifest.files) for _, manifest in fitting])
    numbers = np.split(_numbers(named, snapshot), ends[:-1])
    return [Segment(info, manifest, some) for (info, manifest), some in zip(fitting, numbers, strict=True)]


def _numbers(files: Sequence[tuple[str, int]], snapshot: Snapshot) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each data file, by path and size, its number among the files of a version; -1 if it is none of them."""
    light = snapshot.select(("path", "size"))
    paths, sizes = light["path"].combine_chunks(), light["size"].to_numpy()
    if not files or not len(paths):
        return np.full(len(files), -1, np.int64)
    named = pa.array([path for path, _ in files], paths.type)
    found = pc.fill_null(pc.index_in(named, value_set=paths), -1).to_numpy().astype(np.int64)
    same = sizes[found] == np.array([size for _, size in files])
    return np.where((found >= 0) & same, found, -1)


def _listed(store: Store, folder: str) -> list[FileInfo]:
    try:
        return store.list_from(folder)
    except FileNotFoundError:
        return []
    except (OSError, HeadwaterError) as error:
        _LOG.warning("%s: the index is not used, as its folder cannot be listed: %s", folder, error)
        return []


def _manifest(store: Store, info: FileInfo) -> Manifest | None:
    if info not in _MANIFESTS:
        try:
            _MANIFESTS[info] = _read_manifest(store.read(info.path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, HeadwaterError) as error:
            if isinstance(error, ValueError):
                _DAMAGED[info] = None
            _LOG.warning("%s: not used, as it cannot be read: %s", info.path, error)
            return None
    return _MANIFESTS.get(info)


def _read_manifest(content: bytes) -> Manifest:
    """:raises ValueError: it is damaged, or has a format that is not known."""
    text, _, checksum = content.rpartition(b"\n")
    if checksum != _checksum(text):
        raise ValueError("its checksum does not match")
    manifest = msgspec.json.decode(text, type=Manifest)
    if manifest.format != _FORMAT:
        raise ValueError(f"its format is {manifest.format}, and not {_FORMAT}")
    if any(_NAME.fullmatch(part.name) is None for part in manifest.parts):
        raise ValueError("it names a file outside of its folder")
    return manifest


def _checksum(text: bytes) -> bytes:
    return f"{zlib.crc32(text):08x}".encode()


def put_segment(
    store: Store, folder: str, table: str, index: KeyIndex, files: Sequence[tuple[str, int]], parts: Sequence[Part]
) -> None:
    """Put the manifest that makes parts count.

    :raises OSError: the store failed.
    """
    manifest = Manifest(_FORMAT, table, index.physical_names, index.kinds, [(p, s) for p, s in files], list(parts))
    text = msgspec.json.encode(manifest)
    store.put_many({f"{folder}/{uuid.uuid4().hex}{_MANIFEST}": text + b"\n" + _checksum(text)})


# -- Parts -------------------------------------------------------------------------------------------------------------


def described(store: Store, folder: str, name: str, size: int) -> Part:
    """A part that was written, as a manifest names it.

    :raises OSError: it cannot be read.
    :raises ValueError: it is no Parquet file.
    """
    path = f"{folder}/{name}"
    end = store.read_range(path, size - _FOOTER_END, _FOOTER_END)
    footer_size = int.from_bytes(end[:4], "little") + _FOOTER_END
    footer = store.read_range(path, size - footer_size, footer_size)
    metadata = _parsed(footer)
    found = in_parallel(lambda chunk: zlib.crc32(store.read_range(path, *chunk)), _chunks(metadata))
    return Part(name, size, metadata.num_rows, footer_size, zlib.crc32(footer), found)


def _parsed(footer: bytes) -> pq.FileMetaData:
    try:
        return pq.read_metadata(pa.BufferReader(footer))
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"its footer cannot be read: {error}") from None


def _chunks(metadata: pq.FileMetaData) -> list[tuple[int, int]]:
    """Where the columns of the row groups are in their file: offset and length of each."""
    found = []
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            found.append((start, column.total_compressed_size))
    return found


def footer_of(store: Store, folder: str, part: Part) -> pq.FileMetaData:
    """The footer of a part.

    :raises OSError: it cannot be read.
    :raises ValueError: it is damaged.
    """
    path = f"{folder}/{part.name}"
    if (path, part.footer) not in _FOOTERS:
        footer = store.read_range(path, part.size - part.footer_size, part.footer_size)
        if zlib.crc32(footer) != part.footer:
            raise ValueError(f"{path}: the checksum of its footer does not match")
        _FOOTERS[(path, part.footer)] = _parsed(footer)
    return _FOOTERS[(path, part.footer)]


def open_part(store: Store, folder: str, part: Part) -> pq.ParquetFile:
    """A part, whose checksums are checked as it is read.

    :raises OSError: it cannot be read.
    :raises ValueError: it is damaged.
    """
    metadata = footer_of(store, folder, part)
    return pq.ParquetFile(_Checked(store, f"{folder}/{part.name}", part, metadata), metadata=metadata)


class _Checked(io.RawIOBase):
    """A part as a file that is read a column of a row group at a time, each compared with its checksum."""

    def __init__(self, store: Store, path: str, part: Part, metadata: pq.FileMetaData) -> None:
        super().__init__()
        self._store, self._path, self._part, self._at = store, path, part, 0
        self._chunks = _chunks(metadata)
        if len(self._chunks) != len(part.chunks):
            raise ValueError(f"{path}: it has not as many columns as it has checksums")
        self._starts = [start for start, _ in self._chunks]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._part.size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        found = list[bytes]()
        left = size
        # Columns that lie side by side may be asked for together.
        while left > 0:
            number = bisect.bisect_right(self._starts, self._at) - 1
            start, length = self._chunks[number] if number >= 0 else (0, 0)
            if not start <= self._at < start + length:
                raise ValueError(f"{self._path}: its pages are not where its footer says")
            chunk = self._store.read_range(self._path, start, length)
            if len(chunk) != length or zlib.crc32(chunk) != self._part.chunks[number]:
                raise ValueError(f"{self._path}: a checksum does not match")
            some = chunk[self._at - start : self._at - start + left]
            self._at += len(some)
            left -= len(some)
            found.append(some)
        return found[0] if len(found) == 1 else b"".join(found)


# -- Maintenance -------------------------------------------------------------------------------------------------------


def merge_small(snapshot: Snapshot, index: KeyIndex) -> int:
    """Merge segments of few entries into one, without those of data files that are gone; how many were merged.

    The old ones stay for a while, as a reader may have listed them; until then they cover what the new one covers.

    :raises OSError: the store failed.
    """
    found = _all(snapshot, index)
    newest = _without_merged(found)
    small = [segment for segment in newest if segment.manifest.rows <= _MERGED_ENTRIES // _MOST_SMALL]
    small.sort(key=lambda segment: segment.manifest.rows)
    if len(small) <= _MOST_SMALL:
        return 0
    taken, entries = list[Segment](), 0
    for segment in small:
        if entries + segment.manifest.rows > _MERGED_ENTRIES:
            break
        taken.append(segment)
        entries += segment.manifest.rows
    store, folder = snapshot.store, folder_of(snapshot.table_path, index.name)
    columns: list[list[np.ndarray[Any, Any]]] = [[], [], []]
    files = list[tuple[str, int]]()
    seen = set[int]()
    for segment in taken:
        try:
            tables = [entries_of(store, folder, part, len(segment.files)) for part in segment.manifest.parts]
        except (OSError, ValueError) as error:
            note_damage(segment, error)
            continue
        numbers = np.full(len(segment.files), -1, np.int32)
        for number, row in enumerate(segment.files):
            if row >= 0 and int(row) not in seen:
                seen.add(int(row))
                numbers[number] = len(files)
                files.append(segment.manifest.files[number])
        for table in tables:
            h, f, r = (table[name].to_numpy() for name in PART_SCHEMA.names)
            kept = numbers[f] >= 0
            for column, values in zip(columns, (h[kept], numbers[f[kept]], r[kept]), strict=True):
                column.append(values)
    if not files:
        return 0
    h, f, r = (np.concatenate(column) for column in columns)
    order = np.argsort(h, kind="stable")
    part = write_part(store, folder, h[order], f[order], r[order])
    put_segment(store, folder, snapshot.metadata.id, index, files, [part])
    return len(taken)


def entries_of(store: Store, folder: str, part: Part, files: int) -> pa.Table:
    """All entries of a part.

    :param files: how many files its manifest names.
    :raises OSError: it cannot be read.
    :raises ValueError: it is damaged.
    """
    with open_part(store, folder, part) as opened:
        table = opened.read()
    f = table["f"].to_numpy()
    if len(f) and not 0 <= f.min() <= f.max() < files:
        raise ValueError(f"{folder}/{part.name}: it has entries of files that its manifest does not name")
    return table


def write_part(store: Store, folder: str, h: Any, f: Any, r: Any) -> Part:
    """Write entries, sorted by hash, as a part.

    :raises OSError: the store failed.
    """
    table = pa.table([pa.array(h), pa.array(f), pa.array(r)], schema=PART_SCHEMA)
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=_ROWS_OF_GROUP,
        use_dictionary=False,
        compression="none",
        column_encoding=dict.fromkeys(PART_SCHEMA.names, "DELTA_BINARY_PACKED"),
    )
    data, name = sink.getvalue().to_pybytes(), f"{uuid.uuid4().hex}.parquet"
    store.put_many({f"{folder}/{name}": data})
    footer_size = int.from_bytes(data[-_FOOTER_END:-4], "little") + _FOOTER_END
    footer = data[-footer_size:]
    chunks = [zlib.crc32(data[start : start + length]) for start, length in _chunks(_parsed(footer))]
    return Part(name, len(data), table.num_rows, footer_size, zlib.crc32(footer), chunks)


def _without_merged(found: Sequence[Segment]) -> list[Segment]:
    """The segments without those whose files later ones cover as well, the newest first."""
    kept, known = list[Segment](), set[int]()
    for segment in sorted(found, key=lambda each: (each.info.modification_time, each.manifest.rows), reverse=True):
        own = {int(row) for row in segment.files if row >= 0}
        if own - known:
            kept.append(segment)
            known |= own
    return kept


def delete_unneeded(snapshot: Snapshot, index: KeyIndex) -> int:
    """Delete what has been of no use to the newest version for a while: segments of other tables, columns or types, or
    of data files that are gone or that newer segments cover; parts that no manifest names. How many files.

    :raises OSError: the store failed.
    """
    store, folder = snapshot.store, folder_of(snapshot.table_path, index.name)
    now = clock.milliseconds()
    try:
        listed = store.list_from(folder)
    except FileNotFoundError:
        return 0
    read = _manifests(store, listed)
    infos = [info for info in listed if info.name.endswith(_MANIFEST)]
    if any(info not in read and info not in _DAMAGED for info in infos):
        return 0  # whose parts are of use is not known
    fitting = _fitting(snapshot, index, listed, read)
    useful = _without_merged(fitting)
    names = {segment.info.name for segment in useful}
    replaced = {segment.info.name: _replaced_at(segment, useful) for segment in fitting}

    def is_gone(info: FileInfo) -> bool:
        if (at := replaced.get(info.name)) is not None:
            return info.name not in names and at < now - _REPLACED_STAYS
        return info.modification_time < now - _STAYS

    gone = [info for info in infos if is_gone(info)]
    parts_of = {info.name: [part.name for part in read[info].parts] if info in read else [] for info in infos}
    ended = {part for info in gone for part in parts_of.pop(info.name)}
    kept = {part for parts in parts_of.values() for part in parts}
    others = [info for info in listed if not info.name.endswith(_MANIFEST) and info.name not in kept]
    parts = [info for info in others if info.name in ended or is_gone(info)]
    # Manifests first: what a process that dies here leaves are parts that count no more.
    for some in (gone, parts):
        store.delete_many(folder, [info.path for info in some])
    return len(gone) + len(parts)


def _replaced_at(segment: Segment, useful: Iterable[Segment]) -> int | None:
    """When the newest segment that covers some of its files was written, in milliseconds since the epoch; None if it
    covers none of the version.
    """
    own = segment.files[segment.files >= 0]
    return max((each.info.modification_time for each in useful if np.isin(own, each.files).any()), default=None)


def delete_index(snapshot: Snapshot, name: str) -> None:
    """Delete all files of an index, manifests first. What cannot be deleted stays, and is of no use. An index that
    cannot be, as its name would lead out of the folder, has none.
    """
    if not is_name(name):
        return
    store, folder = snapshot.store, folder_of(snapshot.table_path, name)
    listed = sorted(_listed(store, folder), key=lambda info: not info.name.endswith(_MANIFEST))
    try:
        for failed in store.delete_many(folder, [info.path for info in listed]):
            _LOG.warning("%s: a file of a dropped index stays: %s", failed.path, failed.reason)
        store.delete_empty(folder)
    except (OSError, HeadwaterError) as error:
        _LOG.warning("%s: files of a dropped index stay: %s", folder, error)
