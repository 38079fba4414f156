"""A table's files as another table names them, by absolute paths.

Owns the paths of data files and of deletion vectors outside the table that has them in its log, as a shallow clone has
those of its source. Follows the protocol's chapters "Add File and Remove File" and "Deletion Vector Descriptor Schema".
Promises: each path leads to the file that the source reads; one that is absolute stays as it is, so that a clone of a
clone does not depend on the clone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.log import deletion_vectors
from headwater.log.files import FILE_SCHEMA, canonical_path
from headwater.log.vacuum import inside_table
from headwater.protocol.actions import DeletionVector
from headwater.protocol.partition_paths import encode_path
from headwater.stores import absolute_path
from headwater.stores.interface import SCHEME

#: What is no plain relative path: one with a scheme, or from the root.
_NOT_RELATIVE = "^(/|[A-Za-z][A-Za-z0-9+.-]+:)"
#: Row ids belong to a table; another gives its own.
OF_THE_TABLE = ("base_row_id", "default_row_commit_version")


def uri(path: str) -> str:
    """A path, as a store spells it, as the absolute URI that a log has."""
    return f"file:{encode_path(path)}" if SCHEME.match(path) is None else encode_path(path)


def named_absolutely(files: pa.Table, table_path: str) -> pa.Table:
    """Files of a table as another one adds them, without row ids.

    :param files: rows of ``snapshot.files``.
    """
    columns: dict[str, Any] = {name: files[name] for name in FILE_SCHEMA.names}
    columns["path"] = absolute_uris(files["path"], table_path)
    vectors = files["deletion_vector"]
    if vectors.null_count < len(vectors):
        columns["deletion_vector"] = _vectors(vectors.to_pylist(), table_path)
    columns |= {name: pa.nulls(len(files), FILE_SCHEMA.field(name).type) for name in OF_THE_TABLE}
    return pa.table(columns, schema=FILE_SCHEMA)


def absolute_uris(paths: pa.ChunkedArray, table_path: str) -> pa.ChunkedArray:
    """Paths of a table's log, absolute. What follows the table's own path is spelled as it is there."""
    base = pa.scalar(uri(table_path), pa.string())
    joined = pc.binary_join_element_wise(base, paths, pa.scalar("/", pa.string()))
    elsewhere = pc.match_substring_regex(paths, _NOT_RELATIVE)
    if not pc.any(elsewhere).as_py():
        return joined
    spelled = pa.array(
        [
            path if SCHEME.match(path) else uri(absolute_path(table_path, path))
            for path in paths.filter(elsewhere).to_pylist()
        ],
        pa.string(),
    )
    return pc.replace_with_mask(joined, elsewhere.combine_chunks(), spelled)


def lie_elsewhere(paths: pa.ChunkedArray, table_path: str) -> pa.ChunkedArray:
    """Which paths of a table's log lead out of the table, as those of a shallow clone do."""
    odd = pc.match_substring_regex(paths, rf"{_NOT_RELATIVE}|(^|/)\.\.(/|$)")
    if not pc.any(odd).as_py():
        return odd
    found = [inside_table(canonical_path(path), table_path) is None for path in paths.filter(odd).to_pylist()]
    return pc.replace_with_mask(odd, odd.combine_chunks(), pa.array(found, pa.bool_()))


def _vectors(vectors: Iterable[dict[str, Any] | None], table_path: str) -> pa.Array:
    known: dict[tuple[str, str], tuple[str, str]] = {}

    def named(vector: dict[str, Any] | None) -> dict[str, Any] | None:
        if vector is None or vector["storage_type"] == deletion_vectors.INLINE:
            return vector
        key = vector["storage_type"], vector["path_or_inline"]
        if key not in known:
            is_absolute = key[0] == deletion_vectors.ABSOLUTE and SCHEME.match(key[1]) is not None
            location = key[1] if is_absolute else uri(deletion_vectors.absolute_location(_descriptor(*key), table_path))
            known[key] = (deletion_vectors.ABSOLUTE, location)
        kind, where = known[key]
        return {**vector, "storage_type": kind, "path_or_inline": where}

    return pa.array(list(map(named, vectors)), FILE_SCHEMA.field("deletion_vector").type)


def _descriptor(kind: str, where: str) -> DeletionVector:
    return DeletionVector(kind, where, 0, 0)
