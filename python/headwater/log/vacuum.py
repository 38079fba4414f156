"""What VACUUM may delete: the files below a table that no version within its retention needs.

Owns the choice, as functions of a snapshot, the commits before it and what lies below the table. Paths are decoded and
relative to the table. Follows the protocol's chapters "Data Files", "Deletion Vectors", "Add CDC File" and "Add File
and Remove File". Promises: a file stays that the newest version or an unexpired tombstone names, whether as data or for
its deletion vector; so does one that is not older than the retention, and one in a hidden folder, other than that of
change data and those of partitions. What belongs to another table below this one stays. No path leads out of the table.
A log may name a file of the table in a way that does not show that it is one: through a link, by another scheme, with
``..``. So what has the name of a file that seems to lie elsewhere stays as well; so do links, and what the links lead
to by which the log names a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headwater.log import deletion_vectors
from headwater.log.commits import parse_actions
from headwater.log.files import canonical_path, canonical_paths
from headwater.log.history import last_version_at
from headwater.log.segment import LogListing
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import DeletionVector
from headwater.protocol.file_names import LOG_DIRECTORY
from headwater.protocol.partition_paths import escape_name
from headwater.stores import FileInfo, Tree

#: Folders whose names begin like those of hidden folders, but which contain files of the table.
_NOT_HIDDEN = ("_change_data", "_delta_index")
_ICEBERG_FOLDER = "metadata"
#: A scheme, and whose it is.
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*(?=/))?")
#: Commits that are read at a time.
_COMMITS_AT_ONCE = 256


class Garbage(NamedTuple):
    """What may go. ``up_to``: the version up to which every file that its commits removed is among it, or is needed
    again; None if it is not known.
    """

    files: list[FileInfo]
    directories: list[FileInfo]
    up_to: int | None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def is_entered(snapshot: Snapshot) -> Callable[[str], bool]:
    """Whether VACUUM looks at a file or folder of a name, at any depth."""
    columns = [column for name in snapshot.partition_columns if (column := snapshot.schema.find(name)) is not None]
    names = {name for column in columns for name in (column.name, column.physical_name)}
    partitions = tuple(f"{escape_name(name)}=" for name in names) + tuple(f"{name}=" for name in names)
    formats = snapshot.definition.get(properties.UNIVERSAL_FORMATS).lower()

    def enters(name: str) -> bool:
        if name == _ICEBERG_FOLDER and "iceberg" in formats:
            return False
        return not name.startswith(("_", ".")) or name.startswith(_NOT_HIDDEN) or name.startswith(partitions)

    return enters


class Needed(NamedTuple):
    """Which files stay.

    :param paths: those of the table.
    :param names: the last names of files that seem to lie elsewhere.
    """

    paths: pa.Array
    names: pa.Array


def unreferenced(tree: Tree, needed: Needed, before: int) -> tuple[list[FileInfo], list[FileInfo]]:
    """The files, and the folders that are empty, that are older than a time and that nothing needs.

    :param tree: what lies below the table.
    :param needed: of :func:`needed_files`.
    :param before: milliseconds since the epoch.
    """
    if not tree.files and not tree.directories:
        return [], []
    paths = pa.array([file.path for file in tree.files], pa.string())
    times = pa.array([file.modification_time for file in tree.files], pa.int64())
    chosen = pc.and_(pc.less(times, before), pc.invert(pc.is_in(paths, value_set=needed.paths)))
    if len(needed.names):
        names = pa.array([file.name for file in tree.files], pa.string())
        chosen = pc.and_(chosen, pc.invert(pc.is_in(names, value_set=needed.names)))
    files = [tree.files[row] for row in pc.indices_nonzero(chosen).to_pylist()]
    full = {each.path.rpartition("/")[0] for each in (*tree.files, *tree.directories)}
    empty = [each for each in tree.directories if each.path not in full and each.modification_time < before]
    return files, empty


def needed_files(snapshot: Snapshot, before: int, removed_since: Iterable[pa.Table] = ()) -> Needed:
    """All files that the newest version needs, or a version that was the newest at a time or later.

    :param before: that time, in milliseconds since the epoch.
    :param removed_since: the ``remove`` actions of commits since, where tombstones may have been dropped earlier.
    """
    columns = ["path", "deletion_vector"]
    tombstones = snapshot.tombstones()
    times = pc.fill_null(tombstones["deletion_timestamp"], 0)
    kept = tombstones.filter(pc.greater_equal(times, before))
    tables = [t.select(columns) for t in (snapshot.select(columns), kept, *removed_since)]
    paths: list[pa.Array] = []
    names: set[str] = set()
    for table in tables:
        own, elsewhere = _relative(snapshot, table["path"])
        vectors = table["deletion_vector"].drop_null().to_pylist()
        own_vectors, vectors_elsewhere = _vector_paths(snapshot, vectors)
        paths += [own, pa.array(own_vectors, pa.string())]
        names.update(path.rpartition("/")[2] for path in (*elsewhere, *vectors_elsewhere))
        paths.append(_behind_links(snapshot, [*own.to_pylist(), *own_vectors], [*elsewhere, *vectors_elsewhere]))
    return Needed(pa.concat_arrays(paths), pa.array(names, pa.string()))


def _behind_links(snapshot: Snapshot, own: Iterable[str], elsewhere: Iterable[str]) -> pa.Array:
    """What links lead to from some paths of :func:`_split`, relative to the table."""
    base, is_local = snapshot.table_path, snapshot.store.is_local
    if not is_local:
        return pa.array([], pa.string())
    paths = [f"{base}/{path}" for path in own]
    without_scheme = (_SCHEME.sub("", path) for path in elsewhere)
    paths += [path if path.startswith("/") else f"{base}/{path}" for path in without_scheme]
    links = snapshot.store.links(base, paths)
    return pa.array([way for ways in links.values() for way in ways], pa.string())


def without_links(snapshot: Snapshot, tree: Tree) -> Tree:
    """Files and folders that are no links, and that no link leads to: others are not deleted by such a name."""
    base = snapshot.table_path
    links = snapshot.store.links(base, [f"{base}/{each.path}" for each in (*tree.files, *tree.directories)])
    if not links:
        return tree
    files, folders = ([e for e in some if f"{base}/{e.path}" not in links] for some in tree)
    return Tree(files, folders)


def _relative(snapshot: Snapshot, paths: pa.ChunkedArray) -> tuple[pa.Array, list[str]]:
    """Paths of actions, relative to the table; and those that seem to lead elsewhere."""
    decoded = canonical_paths(paths)
    odd = pc.match_substring_regex(decoded, r"^/|^[A-Za-z][A-Za-z0-9+.-]+:|(^|/)\.{0,2}(/|$)")
    if not pc.any(odd).as_py():
        return decoded.combine_chunks() if isinstance(decoded, pa.ChunkedArray) else decoded, []
    own, elsewhere = _split(decoded.to_pylist(), snapshot)
    return pa.array(own, pa.string()), elsewhere


def _split(paths: Iterable[str], snapshot: Snapshot) -> tuple[list[str], list[str]]:
    """Decoded paths, relative to the table; and those that seem to lead elsewhere."""
    own: list[str] = []
    elsewhere: list[str] = []
    for path in paths:
        inside = inside_table(path, snapshot.table_path)
        if inside is None:
            elsewhere.append(path)
        else:
            own.append(inside)
    return own, elsewhere


def inside_table(path: str, table_path: str) -> str | None:
    """A decoded path relative to the table; None for one that leads out of it, or is no plain path."""
    if path.startswith("file:"):
        path = "/" + path[5:].lstrip("/")
    if path.startswith(f"{table_path}/"):
        path = path[len(table_path) + 1 :]
    elif path.startswith("/") or ":/" in path:
        return None
    names = [name for name in path.split("/") if name not in ("", ".")]
    return None if not names or ".." in names else "/".join(names)


def _vector_paths(snapshot: Snapshot, vectors: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The files of deletion vectors, relative to the table; and those that seem to lie elsewhere."""
    distinct = {(v["storage_type"], v["path_or_inline"]) for v in vectors}
    locations = (
        deletion_vectors.absolute_location(DeletionVector(kind, where, 0, 0), snapshot.table_path)
        for kind, where in distinct
        if kind != deletion_vectors.INLINE
    )
    return _split(locations, snapshot)


def without_other_tables(tree: Tree) -> Tree:
    """What lies below a table, without the tables that others have made below it."""
    logs = [f"{each.path.rpartition('/')[0]}/" for each in tree.directories if _is_log(each.path)]
    roots = tuple({root for root in logs if root != "/"})
    if not roots:
        return Tree(tree.files, [each for each in tree.directories if not _is_log(each.path)])
    files = [file for file in tree.files if not file.path.startswith(roots)]
    directories = [d for d in tree.directories if not f"{d.path}/".startswith(roots) and not _is_log(d.path)]
    return Tree(files, directories)


def _is_log(path: str) -> bool:
    return path.rpartition("/")[2] == LOG_DIRECTORY


def removed_between(
    snapshot: Snapshot, listing: LogListing, first: int, last: int, before: int
) -> tuple[list[FileInfo], int]:
    """The files that the commits of some versions removed, or wrote as change data; and the last of these versions
    before which every one of them may go.

    :param before: removals at this time, in milliseconds since the epoch, or later are left for the next time.
    """
    found: dict[str, FileInfo] = {}
    up_to = last
    enters = is_entered(snapshot)

    def add(path: str | None, size: int, time: int) -> None:
        # A log may name what it does not own: itself, for example.
        if path is not None and all(map(enters, path.split("/"))):
            found[path] = FileInfo(path, size, time)

    for version, removes, changes in _commits(snapshot, listing, first, last):
        for row in removes.to_pylist():
            time = row["deletion_timestamp"] or 0
            if time >= before:
                up_to = min(up_to, version - 1)
                continue
            add(inside_table(canonical_path(row["path"]), snapshot.table_path), row["size"] or 0, time)
            if row["deletion_vector"] is not None:
                for vector in _vector_paths(snapshot, [row["deletion_vector"]])[0]:
                    add(vector, row["deletion_vector"]["size"], time)
        for change in changes:
            add(inside_table(canonical_path(change["path"]), snapshot.table_path), change.get("size") or 0, 0)
    return list(found.values()), up_to


def removals_since(snapshot: Snapshot, listing: LogListing, time: int) -> list[pa.Table]:
    """The ``remove`` actions of all commits after a time that the log still has."""
    version = last_version_at(listing, snapshot, time)
    first = min(listing.commits, default=0) if version is None else version + 1
    return [removes for _, removes, _ in _commits(snapshot, listing, first, snapshot.version)]


def _commits(
    snapshot: Snapshot, listing: LogListing, first: int, last: int
) -> Iterable[tuple[int, pa.Table, list[dict[str, Any]]]]:
    """(version, ``remove`` actions, ``cdc`` actions) of the commits of some versions."""
    versions = [version for version in range(first, last + 1) if version in listing.commits]
    for start in range(0, len(versions), _COMMITS_AT_ONCE):
        some = [listing.commits[version].path for version in versions[start : start + _COMMITS_AT_ONCE]]
        contents = snapshot.store.read_many(some)
        for version, path, content in zip(versions[start:], some, contents, strict=False):
            actions = parse_actions(content, path)
            yield version, actions.files.removes(), actions.change_files
