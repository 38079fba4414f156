"""The files of a table as they appear in a copy of the table.

Owns the names of copies of data files and of files of deletion vectors, below the table that they are copied into.
Follows the protocol's chapters "Add File and Remove File" and "Deletion Vector Descriptor Schema". Promises: a name
follows from where the file lies that it is a copy of, its size and its age, so it shows which files are copied
already, and two files never get one name; directories of partitions stay.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.log import deletion_vectors
from headwater.log.files import FILE_SCHEMA
from headwater.log.files_elsewhere import OF_THE_TABLE
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import DeletionVector
from headwater.stores import absolute_path

#: A plain relative path in a log, with the directory that it begins with.
_RELATIVE = re.compile(r"(?![A-Za-z][A-Za-z0-9+.-]+:)((?:(?!\.\.?/)[^/]+/)*)[^/]+")
#: Not in the name of a copy, so that the name and its spelling in the log are the same.
_ODD = re.compile(r"[^A-Za-z0-9._-]+")
#: Characters that a copy's name has of the file's own. File systems allow 255 bytes.
_NAME = 120
_COPY = re.compile(r"clone-[0-9a-f]{32}-.*|deletion_vector_[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f-]{17}\.bin")
#: Of the names of files of vectors, which are UUIDs.
_VECTORS = uuid.UUID("0d0cb6f2-9a6c-4a53-9b7b-7a7c1ad6a0f8")


class Copy(NamedTuple):
    """A file, where its copy is to be, both as a store spells them, and its size in bytes if the log has it."""

    source: str
    target: str
    size: int | None


def is_copy(name: str) -> bool:
    """Whether a file's name is one that copies have."""
    return _COPY.fullmatch(name) is not None


def copied(files: pa.Table, source: Snapshot, target_path: str) -> tuple[pa.Table, list[Copy]]:
    """Files of a table as its copy adds them, without row ids; and the copies that they need, vectors among them, each
    once.

    :param files: rows of ``source.files``.
    """
    copies: dict[str, Copy] = {}
    paths, vectors = [], []
    columns = (files[name].to_pylist() for name in ("path", "size", "modification_time", "deletion_vector"))
    for path, size, time, vector in zip(*columns, strict=True):
        where = absolute_path(source.table_path, path)
        named = _name(path, where, size, time)
        copies[named] = Copy(where, absolute_path(target_path, named), size)
        paths.append(named)
        vectors.append(_vector(vector, source.table_path, target_path, copies))
    changed: dict[str, Any] = {name: files[name] for name in FILE_SCHEMA.names}
    changed["path"] = pa.array(paths, pa.string())
    changed["deletion_vector"] = pa.array(vectors, FILE_SCHEMA.field("deletion_vector").type)
    changed |= {name: pa.nulls(len(files), FILE_SCHEMA.field(name).type) for name in OF_THE_TABLE}
    return pa.table(changed, schema=FILE_SCHEMA), list(copies.values())


def in_tasks(copies: Sequence[Copy], most_bytes: int, most_files: int) -> list[list[Copy]]:
    """Copies as tasks make them, large ones first. A file is not divided."""
    tasks: list[list[Copy]] = []
    room = 0
    for copy in sorted(copies, key=lambda copy: -(copy.size or 0)):
        if not tasks or room < (copy.size or 0) or len(tasks[-1]) >= most_files:
            tasks.append([])
            room = most_bytes
        tasks[-1].append(copy)
        room -= copy.size or 0
    return tasks


def _name(path: str, where: str, size: int, time: int) -> str:
    """The path of a copy as the log has it."""
    digest = hashlib.blake2b(f"{size} {time} {where}".encode(), digest_size=16).hexdigest()
    relative = _RELATIVE.fullmatch(path)
    directory = "" if relative is None else relative.group(1)
    return f"{directory}clone-{digest}-{_ODD.sub('-', where.rpartition('/')[2])[-_NAME:]}"


def _vector(
    vector: dict[str, Any] | None, source_path: str, target_path: str, copies: dict[str, Copy]
) -> dict[str, Any] | None:
    if vector is None or vector["storage_type"] == deletion_vectors.INLINE:
        return vector
    kind, spelled = vector["storage_type"], vector["path_or_inline"]
    where = deletion_vectors.absolute_location(DeletionVector(kind, spelled, 0, 0), source_path)
    named = uuid.uuid5(_VECTORS, where)
    key = deletion_vectors.relative_name(named)
    copies.setdefault(key, Copy(where, f"{target_path}/{key}", None))
    return {
        **vector,
        "storage_type": deletion_vectors.RELATIVE,
        "path_or_inline": deletion_vectors.z85_encode(named.bytes),
    }
