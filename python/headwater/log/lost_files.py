"""Files that a version of a table names and its store does not have: data files and files of deletion vectors.

Owns the search and what it finds. Follows the protocol's chapters "Add File and Remove File" and "Deletion Vector
Descriptor Schema". Promises: a file counts as missing only if its store says so twice, first among many and then by
itself; a store that fails raises its error; a file in another store is looked for there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headwater.log import deletion_vectors
from headwater.log.files import vector_of
from headwater.log.snapshot import Snapshot
from headwater.stores import SCHEME, Store, absolute_path
from headwater.stores.interface import in_parallel

#: Files that are looked for between two looks whether the statement was cancelled.
_AT_ONCE = 100_000


@dataclass(frozen=True)
class Named:
    """The files of a snapshot, as its store spells them.

    :param data: the data file of each row of ``snapshot.files``.
    :param vectors: the file of its deletion vector; None without one, and for one that is in the log itself.
    """

    data: list[str]
    vectors: list[str | None]

    def paths(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys([*self.data, *(path for path in self.vectors if path is not None)]))


def named_files(snapshot: Snapshot) -> Named:
    """What a snapshot names.

    :raises HeadwaterError: ``DELTA_DELETION_VECTOR_INVALID``.
    """
    files = snapshot.select(["path", "deletion_vector"])
    data = [absolute_path(snapshot.table_path, path) for path in files["path"].to_pylist()]
    column = files["deletion_vector"]
    if column.null_count == len(column):
        return Named(data, [None] * len(data))
    vectors = map(vector_of, column.to_pylist())
    return Named(
        data,
        [
            None
            if vector is None or vector.storage_type == deletion_vectors.INLINE
            else deletion_vectors.absolute_location(vector, snapshot.table_path)
            for vector in vectors
        ],
    )


def missing_files(
    paths: Iterable[str], store_of: Callable[[str], Store], between: Callable[[], None] = lambda: None
) -> set[str]:
    """Those of some files that their stores do not have.

    :param store_of: the store of a path; asked once for each scheme and authority.
    :param between: called again and again, as this may take long; what it raises ends the search.
    :raises OSError: a store failed.
    """
    by_root: dict[str, list[str]] = {}
    for path in paths:
        by_root.setdefault(root_of(path), []).append(path)
    missing: set[str] = set()
    for some in by_root.values():
        store = store_of(some[0])
        for start in range(0, len(some), _AT_ONCE):
            between()
            candidates = store.missing(some[start : start + _AT_ONCE])
            between()
            found = in_parallel(store.exists, candidates)
            missing.update(path for path, there in zip(candidates, found, strict=True) if not there)
    return missing


def root_of(path: str) -> str:
    """The scheme and authority of a path; empty for a local one."""
    return "/".join(path.split("/", 3)[:3]) if SCHEME.match(path) else ""
