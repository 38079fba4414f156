"""Conversion: updates the Iceberg metadata of a Delta table to one of its versions.

Owns ``metadata/`` below a table with ``delta.universalFormat.enabledFormats = 'iceberg'`` and ``icebergCompatV2``.
Data files are not copied: manifests name those of the log, with its statistics and the partition values that it has.
Follows the protocol's chapter "IcebergCompatV2" and Iceberg's specification, format version 2.

Promises:

1. Readers see one version of the Delta table, whole, or the one before it: a metadata file appears by put-if-absent.
2. A conversion needs no other to have happened. It finds the version that the newest metadata file is of, and takes
   the changes since then from the log's commits; where they are not there any more, or do not add up, it compares the
   manifests' files with the table's. Where these are missing or damaged, it writes all from the log.
3. It costs what was changed: added files get a manifest of their own, and only manifests with files that are gone are
   written again. Small ones are merged now and then.
4. What cannot be said in Iceberg's terms is refused, and the metadata stays as it is.
5. Entries that are copied from manifest to manifest have the types of the newest schema: once a column's type is
   another, all entries are written from the log.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics import clock, grouping
from headwater.basics.errors import HeadwaterError
from headwater.iceberg import metadata
from headwater.iceberg.manifests import (
    ADDED,
    DELETED,
    Counts,
    Entry,
    ManifestFile,
    Spec,
    Summary,
    as_existing,
    bodies,
    entries,
    leaves_of,
    manifest,
    manifest_file,
    manifest_files,
    manifest_list,
    merged,
    summaries,
    without,
)
from headwater.iceberg.metadata import Current
from headwater.iceberg.types import FIRST_PARTITION_ID, iceberg_schema, name_mapping, partition_spec
from headwater.log.commits import parse_actions
from headwater.log.files import FILE_SCHEMA, canonical_path, canonical_paths
from headwater.log.snapshot import Snapshot, snapshot_of_files
from headwater.protocol import properties
from headwater.protocol.file_names import commit_name, log_directory
from headwater.protocol.row_tracking import reserved_names
from headwater.schema.iceberg import ROW_TRACKING_FIELD_IDS
from headwater.schema.mapping import max_column_id
from headwater.stores import SCHEME
from headwater.stores.interface import in_parallel

_LOG = logging.getLogger(__name__)
#: Entries of a manifest at most: what is written again for one file that is gone (``bench.iceberg_metadata``).
_ENTRIES = 5000
#: So many manifests with less than half of that are merged.
_SMALL_MANIFESTS = 100
#: Commits that are read for the changes between two versions; where there are more, all files are compared.
_MOST_COMMITS = 100
#: Locations that are searched for in a manifest's bytes; for more, its entries are decoded.
_SEARCHED = 16
_ATTEMPTS = 10
#: Of a column whose bounds are not values of it: so Iceberg's readers skip files by them, and do not take them for the
#: minimum and maximum that a query asks for.
_METRICS = "write.metadata.metrics.column."
#: Names of files that conversions write.
_OWN_FILE = re.compile(r"(snap|manifest)-\d+-[0-9a-f]{32}\.avro|v\d+\.metadata\.json")
_AUTHORITY = re.compile(r"[^:]+:(//[^/]*)?")


def convert(snapshot: Snapshot) -> int | None:
    """Bring the Iceberg metadata of a table to a version; the number of the metadata file that is of it or of a newer
    one.

    :raises HeadwaterError: ``HEADWATER_ICEBERG_CONVERSION_FAILED``; as :func:`~headwater.iceberg.types.iceberg_schema`.
    :raises OSError: the store failed.
    """
    if snapshot.has_deletion_vectors:
        raise _failed(snapshot, "it has files with deletion vectors")
    broken: int | None = None
    for _ in range(_ATTEMPTS):
        current = metadata.newest(snapshot.table_path, snapshot.store)
        number = None if current is None else current.number
        try:
            if current is not None and number != broken and _has_come(current, snapshot):
                if not current.is_hinted:  # whoever made it has not come so far, or never will
                    metadata.point_to(snapshot.table_path, snapshot.store, current.number)
                return current.number
            return _Conversion(snapshot, current, afresh=number == broken).run()
        except FileExistsError:
            continue
        except HeadwaterError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                raise
            reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            if number in (None, broken):
                raise _failed(snapshot, reason) from error
            # What is there may be damaged or incomplete: the next attempt uses nothing of it, unless another writer has
            # made the next metadata file meanwhile.
            _LOG.warning("%s: all of its Iceberg metadata is written again (%s)", snapshot.table_path, reason)
            broken = number
    raise _failed(snapshot, "other writers convert it again and again")


def _has_come(current: Current, snapshot: Snapshot) -> bool:
    """Whether a metadata file is of the version or of a newer one."""
    version = current.delta_version
    return version is not None and version >= snapshot.version and _is_same(current, snapshot)


def _is_same(current: Current, snapshot: Snapshot) -> bool:
    return bool(current.content.get("table-uuid") == _table_uuid(snapshot))


def _table_uuid(snapshot: Snapshot) -> str:
    """The Delta table's id, or a UUID made of it."""
    try:
        return str(uuid.UUID(snapshot.metadata.id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, snapshot.metadata.id))


def _failed(snapshot: Snapshot, reason: str) -> HeadwaterError:
    named = {"tableName": snapshot.table_path, "version": snapshot.version, "reason": reason}
    return HeadwaterError("HEADWATER_ICEBERG_CONVERSION_FAILED", named)


@dataclass
class _Changes:
    """What became of files since the version that the current metadata is of.

    :param gone: the locations of files that are not in the table any more, or whose record is not the same.
    :param added: the files to write records of, with all of ``FILE_SCHEMA``.
    :param data_change: whether rows may have changed.
    """

    gone: set[bytes]
    added: pa.Table
    data_change: bool = True


@dataclass
class _Written:
    """The manifests of the new snapshot: unchanged ones and new ones."""

    kept: list[ManifestFile] = field(default_factory=list)
    new: list[ManifestFile] = field(default_factory=list)

    @property
    def all(self) -> list[ManifestFile]:
        return [*self.new, *self.kept]


class _Conversion:
    """One attempt to make the next metadata file.

    :param afresh: whether nothing that is there is used.
    """

    def __init__(self, snapshot: Snapshot, current: Current | None, *, afresh: bool) -> None:
        self._snapshot, self._store = snapshot, snapshot.store
        self._number = 1 if current is None else current.number + 1
        schema, columns = snapshot.schema, snapshot.partition_columns
        iceberg, fields = iceberg_schema(schema), partition_spec(schema, columns)
        goes_on = None
        if current is not None and not afresh and current.is_own and _is_same(current, snapshot):
            goes_on = metadata.continuation(current.content, iceberg, fields)
        #: What goes on; another history, or another writer's or table's metadata, is replaced as a whole.
        self._base = current if goes_on is not None else None
        self._ended = None if goes_on is not None or afresh else current
        self._is_widened = goes_on is not None and goes_on.is_widened
        base: Mapping[str, Any] = self._base.content if self._base is not None else {}
        self._schemas, self._schema_id = metadata.with_schema(base.get("schemas", ()), iceberg)
        self._schema = next(each for each in self._schemas if each["schema-id"] == self._schema_id)
        spec: Mapping[str, Any] = {"spec-id": 0, "fields": fields} if goes_on is None else goes_on.spec
        self._spec = Spec(spec["spec-id"], spec["fields"], [snapshot.partition_field(name) for name in columns])
        self._leaves = leaves_of(schema, snapshot.definition.indexed_leaves)
        self._sequence = int(base.get("last-sequence-number", 0)) + 1
        self._snapshot_id = secrets.randbits(62) | 1
        self._directory = f"{snapshot.table_path}/{metadata.DIRECTORY}"
        self._files: list[str] = []

    def run(self) -> int:
        """Write it; its number.

        :raises FileExistsError: another writer made it.
        """
        try:
            content, old_files = self._content()
        except BaseException:
            self._delete(self._files)
            raise
        try:
            metadata.publish(self._snapshot.table_path, self._store, self._number, content)
        except FileExistsError:  # after another error, it may be there and need its files
            self._delete(self._files)
            raise
        self._delete(old_files)
        return self._number

    def _delete(self, paths: Sequence[str]) -> None:
        if paths:
            self._store.delete_many(self._directory, paths)

    def _content(self) -> tuple[dict[str, Any], list[str]]:
        """The metadata file, and the files that nothing needs once it is there."""
        snapshot, base = self._snapshot, self._base
        before: Mapping[str, Any] = base.content if base is not None else {}
        last = base.snapshot if base is not None else None
        now = max(clock.milliseconds(), int(before.get("last-updated-ms", 0)) + 1)
        snapshots, log = [*before.get("snapshots", ())], [*before.get("snapshot-log", ())]
        made = self._next_snapshot(last, now)
        if made is not None:
            snapshots.append(made)
            log.append({"timestamp-ms": now, "snapshot-id": made["snapshot-id"]})
            last = made
        retention = snapshot.definition.get(properties.FILE_RETENTION)
        gone = metadata.expired(snapshots, now, retention)
        old_files = self._files_of_expired(snapshots[:gone], snapshots[gone:])
        snapshots = snapshots[gone:]
        ids = {each["snapshot-id"] for each in snapshots}
        metadata_log, old_metadata = self._metadata_log(before)
        if self._ended is not None:
            old_files += self._left_behind(self._ended)
        version = None if base is None else base.delta_version
        content = {
            "format-version": 2,
            "table-uuid": _table_uuid(snapshot),
            "location": metadata.location(snapshot.table_path),
            "last-sequence-number": self._sequence if made is not None else self._sequence - 1,
            "last-updated-ms": now,
            "last-column-id": max_column_id(snapshot.metadata.configuration, snapshot.schema),
            "schemas": self._schemas,
            "current-schema-id": self._schema_id,
            "partition-specs": [{"spec-id": self._spec.id, "fields": list(self._spec.fields)}],
            "default-spec-id": self._spec.id,
            "last-partition-id": FIRST_PARTITION_ID + len(self._spec.fields) - 1,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": self._properties(version),
            "current-snapshot-id": -1 if last is None else last["snapshot-id"],
            "refs": {} if last is None else {"main": {"snapshot-id": last["snapshot-id"], "type": "branch"}},
            "snapshots": snapshots,
            "snapshot-log": [each for each in log if each["snapshot-id"] in ids],
            "metadata-log": metadata_log,
        }
        return content, [*old_files, *old_metadata]

    def _properties(self, before: int | None) -> dict[str, str]:
        configuration = self._snapshot.metadata.configuration
        prefix = f"{properties.UNIVERSAL_CONFIG_PREFIX}iceberg."
        found = {key[len(prefix) :]: value for key, value in configuration.items() if key.startswith(prefix)}
        hidden = zip(reserved_names(configuration), ROW_TRACKING_FIELD_IDS, strict=True)
        mapped = name_mapping(self._snapshot.schema, {name: number for name, number in hidden if name})
        mapping = json.dumps(mapped, separators=(",", ":"))
        began = str(self._number) if self._base is None else self._base.content["properties"][metadata.HISTORY]
        found |= {
            **{f"{_METRICS}{leaf.name}": "counts" for leaf in self._leaves if not leaf.has_exact_bounds},
            metadata.HISTORY: began,
            metadata.DELTA_VERSION: str(self._snapshot.version),
            metadata.DELTA_TIMESTAMP: str(self._snapshot.timestamp),
            metadata.NAME_MAPPING: mapping,
        }
        return found if before is None else {**found, metadata.BASE_DELTA_VERSION: str(before)}

    def _metadata_log(self, before: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
        """The older metadata files that stay, and those that go."""
        if not before:
            return [], []
        path = metadata.path_of(self._snapshot.table_path, self._number - 1)
        entry = {"timestamp-ms": before["last-updated-ms"], "metadata-file": metadata.location(path)}
        found = [*before.get("metadata-log", ()), entry]
        gone = metadata.expired(found, clock.milliseconds(), self._snapshot.definition.get(properties.FILE_RETENTION))
        return found[gone:], [self._own_path(each["metadata-file"]) for each in found[:gone]]

    def _own_path(self, location: str) -> str:
        """The path of a file in the folder of metadata; never of one elsewhere, whatever the location says."""
        return f"{self._directory}/{location.rpartition('/')[2]}"

    def _files_of_expired(self, gone: Sequence[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]]) -> list[str]:
        """Manifest lists of expired snapshots, and the manifests that only they have: one that a snapshot has no more
        comes back in none. So the oldest snapshot that is kept has all others of them, unless its list is lost.
        """
        if not gone:
            return []
        needed = next((listed for listed in map(self._listed, kept) if listed is not None), None)
        if needed is None:  # nobody knows what they need
            return []
        old = {path for snapshot in gone for path in self._listed(snapshot) or ()} - needed
        return [self._own_path(path) for path in (*sorted(old), *(each["manifest-list"] for each in gone))]

    def _listed(self, snapshot: Mapping[str, Any]) -> set[str] | None:
        """The manifests of a snapshot; None if its list is lost."""
        try:
            return {each.path for each in self._manifests_of(snapshot)}
        except FileNotFoundError:
            return None

    def _left_behind(self, ended: Current) -> list[str]:
        """Where another history begins: the files of those before the one that ends. Its own are in use by queries, and
        go when the next one ends.
        """
        content, now = ended.content, clock.milliseconds()
        if not content:
            return []
        needed = {each["metadata-file"] for each in content.get("metadata-log", ())}
        for snapshot in content.get("snapshots", ()):
            needed.add(snapshot["manifest-list"])
            needed.update(self._listed(snapshot) or ())
        names = {path.rpartition("/")[2] for path in (*needed, metadata.path_of("", ended.number))}
        return [
            file.path
            for file in self._store.list_from(self._directory)
            if _OWN_FILE.fullmatch(file.name)
            and file.name not in names
            and now - file.modification_time > metadata.ANY_SNAPSHOT
        ]

    def _manifests_of(self, snapshot: Mapping[str, Any] | None) -> list[ManifestFile]:
        if snapshot is None:
            return []
        return manifest_files(self._store.read(self._own_path(snapshot["manifest-list"])))

    def _next_snapshot(self, last: Mapping[str, Any] | None, now: int) -> dict[str, Any] | None:
        """The snapshot to add; None if the same files are in the table."""
        manifests = [each for each in self._manifests_of(last) if each.live_files]
        self._check_there(manifests)
        written, data_change = (None, True) if self._is_widened else self._by_changes(manifests)
        if written is None:
            written, data_change = self._by_comparing([] if self._is_widened else manifests), True
        if sum(each.live_files for each in written.all) != self._snapshot.num_files:
            raise ValueError("its log names a file twice")
        if not written.new and len(written.kept) == len(manifests):
            return None
        self._merge_small(written)
        path = self._put("snap", manifest_list(written.all, self._snapshot_id, _id_of(last), self._sequence))
        return {
            "snapshot-id": self._snapshot_id,
            **({} if last is None else {"parent-snapshot-id": last["snapshot-id"]}),
            "sequence-number": self._sequence,
            "timestamp-ms": now,
            "manifest-list": path,
            "summary": self._summary(written, data_change),
            "schema-id": self._schema_id,
        }

    def _check_there(self, manifests: Sequence[ManifestFile]) -> None:
        """Look for the files that are used again: while the property was off, any VACUUM may have taken some.

        :raises FileNotFoundError: one is missing or truncated; a store that encrypts may show more bytes.
        """
        if manifests:
            sizes = {file.name: file.size for file in self._store.list_from(self._directory)}
            for each in manifests:
                if sizes.get(each.path.rpartition("/")[2], -1) < each.length:
                    raise FileNotFoundError(f"{each.path} is missing or truncated")

    def _summary(self, written: _Written, data_change: bool) -> dict[str, str]:
        mine = [each for each in written.new if each.snapshot_id == self._snapshot_id]
        added, deleted = sum(each.added.files for each in mine), sum(each.deleted.files for each in mine)
        operation = "append" if not deleted else "delete" if not added else "overwrite"
        if self._is_widened:
            operation = "overwrite"
        totals = {
            "added-data-files": added,
            "added-records": sum(each.added.rows for each in mine),
            "deleted-data-files": deleted,
            "deleted-records": sum(each.deleted.rows for each in mine),
            "total-data-files": sum(each.live_files for each in written.all),
            "total-records": sum(each.live_rows for each in written.all),
            "total-delete-files": 0,
            "total-position-deletes": 0,
            "total-equality-deletes": 0,
            metadata.DELTA_VERSION: self._snapshot.version,
        }
        named = {"operation": operation if data_change else "replace", **metadata.ENGINE}
        return named | {name: str(value) for name, value in totals.items()}

    # The manifests of the version

    def _by_changes(self, manifests: Sequence[ManifestFile]) -> tuple[_Written | None, bool]:
        """By the commits since the last conversion; None if they are not there or do not add up."""
        changes = self._changes()
        if changes is None:
            return None, True
        written = _Written(list(manifests))
        if changes.gone:
            written = self._without(manifests, changes.gone)
        self._add(written, changes.added)
        if sum(each.live_files for each in written.all) != self._snapshot.num_files:
            self._delete(self._files)
            self._files = []
            return None, True
        return written, changes.data_change

    def _changes(self) -> _Changes | None:
        snapshot, base = self._snapshot, self._base
        since = None if base is None else base.delta_version
        if since is None or not 0 <= snapshot.version - since <= _MOST_COMMITS:
            return None
        directory = log_directory(snapshot.table_path)
        paths = [f"{directory}/{commit_name(version)}" for version in range(since + 1, snapshot.version + 1)]
        try:
            commits = [
                parse_actions(data, path) for path, data in zip(paths, self._store.read_many(paths), strict=True)
            ]
        except FileNotFoundError:
            return None
        gone: set[str] = set()
        added: set[str] = set()
        data_change = False
        for commit in commits:
            for is_add, action in commit.files:
                path = canonical_path(action["path"])
                data_change |= bool(action.get("dataChange"))
                if not is_add:
                    gone.add(path)
                    added.discard(path)
                    continue
                if not action.get("dataChange"):  # its file may be there already, with other statistics
                    gone.add(path)
                added.add(path)
        locations = {_file_location(snapshot.table_path, path).encode() for path in gone}
        return _Changes(locations, self._live(added), data_change)

    def _by_comparing(self, manifests: Sequence[ManifestFile]) -> _Written:
        """By comparing the manifests' files with the table's."""
        snapshot = self._snapshot
        paths = canonical_paths(snapshot.select(["path"])["path"]).to_pylist()
        live = {_file_location(snapshot.table_path, path).encode(): path for path in paths}
        found = in_parallel(self._entries, manifests)
        known = {entry.path for read in found for entry in read if entry.status != DELETED}
        written = self._without(manifests, known - live.keys())
        self._add(written, self._live({path for location, path in live.items() if location not in known}))
        return written

    def _live(self, paths: Collection[str]) -> pa.Table:
        """The live files of some paths; rows of ``snapshot.files``."""
        found = [FILE_SCHEMA.empty_table()]
        if paths:
            wanted = pa.array(paths, pa.string())
            for live in self._snapshot.state.blocks:
                asked = pc.is_in(canonical_paths(live.block.table["path"]), value_set=wanted)
                if pc.any(asked).as_py():
                    table = live.select(live.block.columns(FILE_SCHEMA.names))
                    found.append(table.filter(pc.is_in(canonical_paths(table["path"]), value_set=wanted)))
        return pa.concat_tables(found)

    def _entries(self, each: ManifestFile) -> list[Entry]:
        return list(entries(self._store.read(self._own_path(each.path))))

    def _without(self, manifests: Sequence[ManifestFile], gone: Collection[bytes]) -> _Written:
        """The manifests without the files of some locations: only those that have one are written again."""
        written = _Written()
        if not gone:
            return _Written(list(manifests))
        for each, changed in zip(manifests, in_parallel(partial(self._rewritten, gone), manifests), strict=True):
            (written.kept if changed is None else written.new).append(changed or each)
        return written

    def _rewritten(self, gone: Collection[bytes], each: ManifestFile) -> ManifestFile | None:
        """A manifest without the files of some locations, written; None if it has none of them."""
        content = self._store.read(self._own_path(each.path))
        if len(gone) <= _SEARCHED and not any(location in content for location in gone):
            return None
        found = without(content, self._schema, self._spec, gone, self._snapshot_id)
        if found is None:
            return None
        rows = sum(entry.num_rows for entry in found.gone)
        return replace(
            each,
            path=self._put("manifest", found.content),
            length=len(found.content),
            sequence_number=self._sequence,
            snapshot_id=self._snapshot_id,
            added=Counts(),
            existing=Counts(found.live, each.live_rows - rows),
            deleted=Counts(len(found.gone), rows),
        )

    def _add(self, written: _Written, files: pa.Table) -> None:
        """Write manifests of files that the metadata does not have yet."""
        for part in _parts(files):
            found, partitions = self._records(part)
            new = [Entry(ADDED, self._snapshot_id, self._sequence, body) for body in found]
            written.new.append(self._write(new, partitions))

    def _records(self, files: pa.Table) -> tuple[list[bytes], tuple[Summary, ...]]:
        snapshot = self._snapshot
        some = snapshot_of_files(snapshot.table_path, self._store, snapshot.version, snapshot.definition, files)
        leaves = self._leaves
        statistics = some.statistics([leaf.path for leaf in leaves])
        if statistics["num_records"].null_count:
            raise _failed(snapshot, "the log has no number of rows of some of its files")
        partitions = [(some.partition_values(column.name), column.type) for column in self._spec.columns]
        paths = canonical_paths(files["path"]).to_pylist()
        locations = [_file_location(snapshot.table_path, path) for path in paths]
        return bodies(locations, files, statistics, leaves, partitions), summaries(partitions)

    def _merge_small(self, written: _Written) -> None:
        """Merge manifests that are small, once there are many."""
        small = [each for each in written.kept if each.live_files < _ENTRIES // 2]
        if len(small) < _SMALL_MANIFESTS:
            return
        written.kept = [each for each in written.kept if each.live_files >= _ENTRIES // 2]
        for group in grouping.next_fit(small, lambda each: each.live_files, _ENTRIES):
            read = in_parallel(self._entries, group)
            found = [as_existing(entry) for each in read for entry in each if entry.status != DELETED]
            partitions = group[0].partitions
            for each in group[1:]:
                partitions = merged(partitions, each.partitions, self._spec)
            written.new.append(self._write(found, partitions))

    def _write(self, found: Sequence[Entry], partitions: tuple[Summary, ...]) -> ManifestFile:
        content = manifest(self._schema, self._spec, found)
        path = self._put("manifest", content)
        return manifest_file(path, content, self._spec, self._sequence, self._snapshot_id, found, partitions)

    def _put(self, kind: str, content: bytes) -> str:
        """Write a file of metadata under a name of its own; its location."""
        path = f"{self._directory}/{kind}-{self._snapshot_id}-{uuid.uuid4().hex}.avro"
        self._files.append(path)
        metadata.put_once(self._store, path, content)
        return metadata.location(path)


def _id_of(snapshot: Mapping[str, Any] | None) -> int | None:
    return None if snapshot is None else snapshot["snapshot-id"]


def _parts(files: pa.Table) -> Iterator[pa.Table]:
    """Files for one manifest each; those of a partition lie together."""
    if files.num_rows > _ENTRIES:
        keys = [str(sorted((value or []), key=str)) for value in files["partition_values"].to_pylist()]
        files = files.take(pc.sort_indices(pa.array(keys, pa.string())))
    for start in range(0, files.num_rows, _ENTRIES):
        yield files.slice(start, _ENTRIES)


def _file_location(table_path: str, path: str) -> str:
    """The location of a data file.

    :param path: decoded.
    """
    if path.startswith("/"):
        authority = _AUTHORITY.match(table_path) if SCHEME.match(table_path) else None
        return f"{authority.group(0) if authority else 'file://'}{path}"
    if SCHEME.match(path):
        return path
    return f"{metadata.location(table_path)}/{path}"
