"""Symlink manifests: a version's data files as text, for readers that do not know the log.

Owns ``_symlink_format_manifest/[<partition directories>/]manifest``, the files that Hive's ``SymlinkTextInputFormat``,
Presto and Athena read: the absolute path of a data file a line, one manifest for each partition. Promises: each
manifest is replaced as a whole; one of a partition without files is deleted; data files are named as the log names
them. Readers of manifests know neither deletion vectors nor column mapping, so tables with either are refused, as are
paths that a line cannot hold.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.log.files import canonical_path
from headwater.log.snapshot import Snapshot
from headwater.protocol.partition_paths import partition_directory
from headwater.protocol.partition_values import text_of, texts_of
from headwater.stores import SCHEME, Store

#: The hidden folder of the manifests, below the table's.
DIRECTORY = "_symlink_format_manifest"
_NAME = "manifest"
_AUTHORITY = re.compile(r"[^:]+:(//[^/]*)?")

#: The partition values of a file, by physical name.
Values = Mapping[str, str | None]


def check(snapshot: Snapshot) -> None:
    """Refuse a version whose files say less than its log.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING``,
        ``DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS``.
    """
    named = {"tableName": snapshot.metadata.name or snapshot.table_path}
    if snapshot.definition.maps_columns:
        raise HeadwaterError("DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING", named)
    if snapshot.has_deletion_vectors:
        raise HeadwaterError("DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS", named)


def manifests(snapshot: Snapshot, partitions: Iterable[Values] | None = None) -> dict[str, bytes]:
    """The content of each manifest by its path below the table; of a partition without files it is empty.

    :param partitions: the partitions that matter; None for all that have files.
    :raises HeadwaterError: as :func:`check`; ``HEADWATER_MANIFEST_PATH_NOT_SUPPORTED``.
    """
    check(snapshot)
    light = snapshot.select(["path", "partition_values"])
    names = snapshot.partition_columns
    if not names:
        return {f"{DIRECTORY}/{_NAME}": _content(snapshot, light["path"].to_pylist())}
    texts = [pc.fill_null(texts_of(light["partition_values"], name), "") for name in names]
    keys = [str(position) for position in range(len(names))]
    table = pa.table([*texts, light["path"]], names=[*keys, "path"])
    found: dict[str, bytes] = {}
    if partitions is not None:
        asked = sorted({tuple(text_of(values, name) or "" for name in names) for values in partitions})
        found = {_path(names, values): b"" for values in asked}
        wanted = pa.table([pa.array(column, pa.string()) for column in zip(*asked, strict=True)], names=keys)
        table = table.join(wanted, keys, join_type="left semi") if asked else table.slice(0, 0)
    grouped = table.group_by(keys, use_threads=False).aggregate([("path", "list")])
    columns = [grouped[key].to_pylist() for key in keys]
    for values, paths in zip(zip(*columns, strict=True), grouped["path_list"].to_pylist(), strict=True):
        found[_path(names, values)] = _content(snapshot, paths)
    return found


def _path(names: Sequence[str], values: Sequence[str]) -> str:
    return f"{DIRECTORY}/{partition_directory(dict(zip(names, values, strict=True)))}/{_NAME}"


def _content(snapshot: Snapshot, paths: Collection[str]) -> bytes:
    return "".join(f"{line}\n" for line in sorted(_line(snapshot.table_path, path) for path in paths)).encode()


def _line(table_path: str, path: str) -> str:
    """A file's absolute path as Hadoop spells it: decoded, and with its scheme.

    :raises HeadwaterError: ``HEADWATER_MANIFEST_PATH_NOT_SUPPORTED``: readers would take it for two files.
    """
    decoded = canonical_path(path)
    if "\n" in decoded or "\r" in decoded:
        named = {"tableName": table_path, "path": path}
        raise HeadwaterError("HEADWATER_MANIFEST_PATH_NOT_SUPPORTED", named)
    if decoded.startswith("/"):
        authority = _AUTHORITY.match(table_path) if SCHEME.match(table_path) and not SCHEME.match(path) else None
        return f"{authority.group(0) if authority else 'file:'}{decoded}"
    if SCHEME.match(path):
        return decoded
    return f"{'file:' if table_path.startswith('/') else ''}{table_path}/{decoded}"


def are_there(snapshot: Snapshot) -> bool:
    """Whether the table has the folder of manifests."""
    return snapshot.store.exists(f"{snapshot.table_path}/{DIRECTORY}")


def write(snapshot: Snapshot, contents: Mapping[str, bytes]) -> None:
    """Write manifests, and delete those of partitions that have no files."""
    store, base = snapshot.store, snapshot.table_path
    # That of a table without partitions stays, as readers look for it there.
    full = [path for path, content in contents.items() if content or not snapshot.partition_columns]
    store.put_many({f"{base}/{path}": contents[path] for path in full})
    _delete(store, base, [path for path in contents if path not in set(full)])


def delete_others(snapshot: Snapshot, paths: Collection[str]) -> None:
    """Delete the manifests that are not among these: those of partitions that are gone, or of columns that were
    partition columns once.
    """
    base = snapshot.table_path
    try:
        tree = snapshot.store.walk(f"{base}/{DIRECTORY}", lambda name: True, lambda: None)
    except FileNotFoundError:
        return
    there = [f"{DIRECTORY}/{file.path}" for file in tree.files if file.name == _NAME]
    _delete(snapshot.store, base, [path for path in there if path not in paths])


def _delete(store: Store, base: str, paths: Sequence[str]) -> None:
    if not paths:
        return
    for failed in store.delete_many(f"{base}/{DIRECTORY}", [f"{base}/{path}" for path in paths]):
        raise OSError(f"{failed.path} could not be deleted: {failed.reason}")
    for path in paths:
        directory = path.rpartition("/")[0]
        while directory != DIRECTORY:
            with contextlib.suppress(OSError):
                if not store.delete_empty(f"{base}/{directory}"):
                    break
            directory = directory.rpartition("/")[0]
