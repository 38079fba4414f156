"""The metadata of an Iceberg table: which files its rows are in, and which rows of them are deleted.

Owns the choice of the newest metadata file in a folder, of a snapshot, and the planning of a scan: data files with
their partition values, and with the position deletes and deletion vectors that apply to them. Follows Iceberg's
specification, the chapters "Table Metadata", "Manifests" and "Scan Planning". Promises: no path leads out of the
table's folder; what a Delta table cannot have is a :class:`NotDelta` that names it, and a file that is damaged a
:class:`Damaged`.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from headwater.iceberg.avro import read_records
from headwater.iceberg.delta_types import NotDelta, delta_schema, partition_text
from headwater.log import deletion_vectors
from headwater.log.vacuum import inside_table
from headwater.protocol.types import DataType, StructType
from headwater.stores import Store

_FOLDER = "metadata"
_HINT = "version-hint.text"
_METADATA = re.compile(r"(?:v(\d+)|(\d+)-[^/]*?)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_VERSIONS = (1, 2, 3)
_DATA, _POSITIONS, _EQUALITY = 0, 1, 2
_DELETED = 2
_IDENTITY, _VOID = "identity", "void"
#: One store under several schemes.
_SAME_STORE = re.compile(r"^s3[an]?://")


class Damaged(ValueError):
    """A file of the metadata that is damaged, gone or elsewhere; ``path`` of the file."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path, self.reason = path, reason


class DataFile(NamedTuple):
    """A file with rows of the table.

    :param path: relative to the table, not URL-encoded.
    :param values: partition values by column, as a log of Delta has them.
    :param deleted: the positions of its deleted rows; None if no row is deleted.
    """

    path: str
    size: int
    rows: int
    values: dict[str, str | None]
    deleted: BitMap64 | None


class Snapshot(NamedTuple):
    """A snapshot of a table; ``snapshot_id`` is None for a table without rows that never had any."""

    snapshot_id: int | None
    schema: StructType
    last_column_id: int
    partition_columns: list[str]
    files: list[DataFile]


def metadata_file(store: Store, table: str) -> str | None:
    """The newest metadata file in the folder of a table; None if the folder has no such file.

    Tables without a catalog number their files ``v<n>``, and the newest one counts, even if the hint names an older
    one. Catalogs have names and numbers of their own, so these cannot be compared with the others.

    :raises NotDelta: only a catalog knows which one is current: two of its files are equally new, or one was written
        after the newest ``v<n>``, as when such a table was registered with a catalog.
    :raises Damaged: the hint names a file that does not exist.
    """
    folder = f"{table}/{_FOLDER}"
    try:
        listed = [each.path.rpartition("/")[2] for each in store.list_from(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return None
    without_catalog: dict[int, list[str]] = {}
    of_catalog: dict[int, list[str]] = {}
    for name in listed:
        if (found := _METADATA.fullmatch(name)) is not None:
            numbers = of_catalog if found.group(1) is None else without_catalog
            numbers.setdefault(int(found.group(1) or found.group(2)), []).append(name)
    if not (without_catalog or of_catalog):
        return None
    numbers = without_catalog or of_catalog
    number = max(numbers)
    if len(numbers[number]) > 1:
        names = " and ".join(sorted(numbers[number]))
        raise NotDelta(f"its metadata files {names} are equally new, and only its catalog knows which one is current")
    newest = numbers[number][0]
    if without_catalog and _HINT in listed:
        hinted = store.read(f"{folder}/{_HINT}").strip()
        if hinted.isdigit() and int(hinted) > number:
            raise Damaged(f"{folder}/v{int(hinted)}.metadata.json", f"it does not exist, but {_HINT} names it")
    for name in of_catalog[max(of_catalog)] if without_catalog and of_catalog else ():
        if Table(store, table, f"{folder}/{name}").updated > Table(store, table, f"{folder}/{newest}").updated:
            raise NotDelta(
                f"its metadata file {name}, which a catalog wrote, is newer than {newest}, and only the catalog knows "
                "which one is current; give the path of that file in place of the table's"
            )
    return f"{folder}/{newest}"


class Table:
    """An Iceberg table as one metadata file describes it.

    :param path: the folder of the table; ``file`` the metadata file.
    :raises Damaged: the file is gone or damaged.
    :raises NotDelta: its format is not known.
    """

    def __init__(self, store: Store, path: str, file: str) -> None:
        self._store, self._path, self._file = store, path, file
        try:
            data = store.read(file)
            if data[:2] == b"\x1f\x8b":
                data = gzip.decompress(data)
            self._metadata: dict[str, Any] = json.loads(data)
            version = self._metadata["format-version"]
        except FileNotFoundError:
            raise Damaged(file, "it does not exist") from None
        except (ValueError, KeyError, TypeError, EOFError, OSError, RecursionError, zlib.error) as error:
            raise Damaged(file, f"it is not the metadata of an Iceberg table ({error})") from None
        if version not in _VERSIONS:
            raise NotDelta(f"it has version {version} of the format, but only 1 to 3 are supported")

    @property
    def updated(self) -> int:
        """When the metadata was written, in milliseconds since the epoch."""
        try:
            return int(self._metadata["last-updated-ms"])
        except (KeyError, TypeError, ValueError):
            raise Damaged(self._file, "it does not say when it was written") from None

    def snapshot(self, snapshot_id: int | None, milliseconds: int | None, between: Callable[[], None]) -> Snapshot:
        """A snapshot: that of an id, or the one that was current at a time; the current one if both are None.

        :param between: called between the files that are read.
        :raises Damaged: a file of the metadata is damaged, gone or elsewhere.
        :raises NotDelta: a Delta table cannot have something of it.
        :raises LookupError: there is no such snapshot.
        """
        try:
            return self._snapshot(self._chosen(snapshot_id, milliseconds), between)
        except (NotDelta, Damaged, LookupError) as error:
            if isinstance(error, (KeyError, IndexError)):
                raise Damaged(self._file, f"it lacks {error}") from None
            raise
        except (TypeError, AttributeError, ValueError, RecursionError) as error:
            raise Damaged(self._file, f"it is not the metadata of an Iceberg table ({error})") from None

    def _chosen(self, snapshot_id: int | None, milliseconds: int | None) -> Mapping[str, Any] | None:
        """The snapshot's own JSON; None for a table that has none."""
        by_id: dict[Any, Mapping[str, Any]] = {
            each["snapshot-id"]: each for each in self._metadata.get("snapshots") or ()
        }
        if milliseconds is not None:
            entries = self._metadata.get("snapshot-log") or ()
            before = [each["snapshot-id"] for each in entries if each["timestamp-ms"] <= milliseconds]
            if not before:
                raise _NoSnapshot("none is as old")
            snapshot_id = before[-1]
        elif snapshot_id is None:
            snapshot_id = self._metadata.get("current-snapshot-id")
            if snapshot_id is None or snapshot_id == -1:
                return None
        if snapshot_id not in by_id:
            raise _NoSnapshot(f"it has the snapshots {', '.join(map(str, by_id)) or 'none'}")
        return by_id[snapshot_id]

    def _snapshot(self, chosen: Mapping[str, Any] | None, between: Callable[[], None]) -> Snapshot:
        metadata = self._metadata
        schemas = metadata.get("schemas") or [metadata["schema"]]
        number = metadata.get("current-schema-id", schemas[-1].get("schema-id"))
        is_current = chosen is None or chosen["snapshot-id"] == metadata.get("current-snapshot-id")
        if chosen is not None and not is_current:
            number = chosen.get("schema-id", number)
        # A table of the first version may have one schema, without a number.
        schema = next((each for each in schemas if each.get("schema-id") == number), schemas[-1])
        earlier = [each for each in schemas if each.get("schema-id", 0) < schema.get("schema-id", 0)]
        columns = delta_schema(schema, sorted(earlier, key=lambda each: int(each.get("schema-id", 0))))
        manifests = [] if chosen is None else self._manifests(chosen)
        entries = list(self._entries(manifests, between))
        sources = self._partition_sources(entries)
        by_id = {int(each["id"]): str(each["name"]) for each in schema["fields"]}
        partitions = []
        for source in sources:
            if source not in by_id:
                raise NotDelta("it is partitioned by a field of a struct, or by a column that it no longer has")
            partitions.append(by_id[source])
        kinds = {field.name: field.type for field in columns}
        files = self._planned(entries, partitions, kinds, between)
        highest = int(metadata["last-column-id"])
        return Snapshot(None if chosen is None else int(chosen["snapshot-id"]), columns, highest, partitions, files)

    def _manifests(self, snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
        if "manifest-list" not in snapshot:
            raise NotDelta("its snapshot has no manifest list, as with old writers; rewrite its manifests first")
        return self._records(snapshot["manifest-list"])

    def _entries(self, manifests: Iterable[Mapping[str, Any]], between: Callable[[], None]) -> Iterator[_Entry]:
        """The live files of data and deletes."""
        for manifest in manifests:
            between()
            inherited = manifest.get("sequence_number") or 0
            for record in self._records(manifest["manifest_path"]):
                if record["status"] == _DELETED:
                    continue
                sequence = record.get("sequence_number")
                spec = int(manifest.get("partition_spec_id") or 0)
                yield _Entry(record["data_file"], inherited if sequence is None else sequence, spec)

    def _partition_sources(self, entries: Sequence[_Entry]) -> list[int]:
        """The ids of the partition columns.

        :raises NotDelta: files are partitioned differently, or not by columns as they are.
        """
        metadata = self._metadata
        specs = metadata.get("partition-specs")
        if specs is None:
            specs = [{"spec-id": 0, "fields": metadata.get("partition-spec") or []}]
        known = {int(spec["spec-id"]): spec["fields"] for spec in specs}
        used = {entry.spec for entry in entries if entry.content == _DATA} | {int(metadata.get("default-spec-id", 0))}
        found = {number: [f for f in known[number] if f["transform"] != _VOID] for number in sorted(used)}
        for fields in found.values():
            for field in fields:
                if field["transform"] != _IDENTITY:
                    raise NotDelta(f"it is partitioned by {field['transform']} of a column ({field['name']})")
        sources = {number: [int(field["source-id"]) for field in fields] for number, fields in found.items()}
        if len({tuple(each) for each in sources.values()}) > 1:
            raise NotDelta("its partitioning was changed, and files are partitioned differently")
        self._specs = known
        return next(iter(sources.values()))

    def _planned(
        self,
        entries: Sequence[_Entry],
        partitions: Sequence[str],
        kinds: Mapping[str, DataType],
        between: Callable[[], None],
    ) -> list[DataFile]:
        deletes = _Deletes()
        for entry in entries:
            if entry.content == _EQUALITY:
                raise NotDelta("it has equality deletes; compact its data files first")
            if entry.content == _POSITIONS:
                between()
                self._read_deletes(entry, deletes)
        files: dict[str, DataFile] = {}
        for entry in entries:
            if entry.content != _DATA:
                continue
            path, file = self._inside(entry.file["file_path"]), entry.file
            if (form := str(file["file_format"]).upper()) != "PARQUET":
                raise NotDelta(f"its file {path} is of the format {form}")
            if file.get("key_metadata") is not None:
                raise NotDelta(f"its file {path} is encrypted")
            if path in files:
                raise NotDelta(f"it has its file {path} twice")
            spec = self._specs[entry.spec]
            texts = [
                value
                for field, value in zip(spec, file["partition"].values(), strict=True)
                if field["transform"] != _VOID
            ]
            values = {
                name: partition_text(value, kinds[name], name) for name, value in zip(partitions, texts, strict=True)
            }
            deleted = deletes.of(path, entry.sequence)
            files[path] = DataFile(
                path, int(file["file_size_in_bytes"]), int(file["record_count"]), values, deleted or None
            )
        return list(files.values())

    def _read_deletes(self, entry: _Entry, deletes: _Deletes) -> None:
        """The deleted rows that a file of deletes has."""
        path, form = self._inside(entry.file["file_path"]), str(entry.file["file_format"]).upper()
        where = f"{self._path}/{path}"
        try:
            if form == "PUFFIN":
                offset, size = int(entry.file["content_offset"]), int(entry.file["content_size_in_bytes"])
                found = _vector(self._store.read_range(where, offset, size))
                deletes.add_vector(self._inside(entry.file["referenced_data_file"]), found, entry.sequence)
            elif form == "PARQUET":
                rows = pq.read_table(pa.BufferReader(self._store.read(where)), columns=["file_path", "pos"])
                paths = rows["file_path"].combine_chunks().dictionary_encode()
                positions, numbers = rows["pos"].to_numpy(), paths.indices.to_numpy()
                for number, name in enumerate(paths.dictionary.to_pylist()):
                    deletes.add(self._inside(name), BitMap64(positions[numbers == number]), entry.sequence)
            else:
                raise NotDelta(f"its file of deletes {path} is of the format {form}")
        except FileNotFoundError:
            raise Damaged(where, "it does not exist") from None
        except (NotDelta, Damaged):
            raise
        except (ValueError, KeyError, TypeError, struct.error, pa.ArrowException, OSError) as error:
            raise Damaged(where, f"its deletes cannot be read ({error})") from None

    def _records(self, path: str) -> list[dict[str, Any]]:
        """The records of a file of Avro."""
        where = f"{self._path}/{self._inside(path)}"
        try:
            found: list[dict[str, Any]] = read_records(self._store.read(where))
        except FileNotFoundError:
            raise Damaged(where, "it does not exist") from None
        except (ValueError, TypeError, zlib.error) as error:
            raise Damaged(where, str(error)) from None
        return found

    def _inside(self, path: str) -> str:
        """A path of the metadata, relative to the table's folder.

        :raises Damaged: it leads elsewhere.
        """
        named = path
        if _SAME_STORE.match(path) is not None and (own := _SAME_STORE.match(self._path)) is not None:
            named = own.group() + _SAME_STORE.sub("", path)
        found = inside_table(named, self._path) if named.startswith("/") or ":/" in named else None
        if found is None:
            raise Damaged(path, f"it is outside of the table's folder {self._path}")
        return found


class _NoSnapshot(LookupError):
    """No snapshot of an id or a time."""


class _Entry(NamedTuple):
    """An entry of a manifest: a file, its sequence number, and the number of its partition spec."""

    file: Mapping[str, Any]
    sequence: int
    spec: int

    @property
    def content(self) -> int:
        return int(self.file.get("content") or _DATA)


class _Deletes:
    """Deleted rows by data file. A vector stands for all that were deleted before it."""

    def __init__(self) -> None:
        self._positions: dict[str, list[tuple[int, BitMap64]]] = {}
        self._vectors: dict[str, tuple[int, BitMap64]] = {}

    def add(self, path: str, positions: BitMap64, sequence: int) -> None:
        self._positions.setdefault(path, []).append((sequence, positions))

    def add_vector(self, path: str, positions: BitMap64, sequence: int) -> None:
        if path in self._vectors:
            raise ValueError(f"{path} has two vectors")
        self._vectors[path] = (sequence, positions)

    def of(self, path: str, sequence: int) -> BitMap64:
        """The deleted rows of a data file of a sequence number: deletes that are older do not apply."""
        at, vector = self._vectors.get(path, (-1, BitMap64()))
        if at >= sequence:
            return vector
        found = BitMap64()
        for later, positions in self._positions.get(path, ()):
            if later >= sequence:
                found |= positions
        return found


def _vector(blob: bytes) -> BitMap64:
    """The positions in a blob ``deletion-vector-v1``: its length, the vector as Delta has it, its checksum.

    :raises ValueError: it is damaged.
    """
    (length,) = struct.unpack_from(">i", blob)
    data, end = blob[4 : 4 + length], blob[4 + length :]
    if len(blob) != length + 8 or struct.unpack(">I", end)[0] != zlib.crc32(data):
        raise ValueError("a vector is truncated or damaged")
    return deletion_vectors.deserialize(data)
