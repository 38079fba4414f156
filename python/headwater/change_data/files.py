"""Which files hold the changes of a commit, and which of their rows.

Owns the protocol's reader requirements for ``cdc`` actions. If a commit has ``cdc`` actions, they alone hold its
changes. In other commits, the rows of an ``add`` were inserted and those of a ``remove`` deleted; actions that change
no data are ignored. If a ``remove`` and an ``add`` name the same file, their deletion vectors differ: rows only in the
new vector were deleted, rows only in the old one were restored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.change_data.changelog import PAIRED, PAIRED_TAG
from headwater.log import deletion_vectors
from headwater.log.commits import ParsedActions
from headwater.log.files import canonical_path
from headwater.protocol.actions import DeletionVector
from headwater.stores import Store

INSERT, DELETE = "insert", "delete"
#: Engines whose metrics of a MERGE count each row of the target that it changed, by what they write as ``engineInfo``.
_COUNTING_ENGINES = re.compile(r"(^| )(Headwater|Delta-Lake|Databricks-Runtime)/")


@dataclass(frozen=True)
class ChangedFile:
    """A file with changed rows. ``path`` as in the log, ``partition_values`` by physical name, ``size`` in bytes,
    ``modification_time`` in milliseconds, None if the log has none.

    ``change_type`` is that of all rows; it is None for a change data file, whose rows have it in ``_change_type``. The
    rows in ``without`` do not count; if ``only`` is given, just the rows in it do. ``number`` is that of the file among
    those of its version. In a file that ``is_paired``, each preimage is directly followed by its postimage.
    """

    version: int
    path: str
    size: int
    partition_values: Mapping[str, str | None]
    change_type: str | None = None
    modification_time: int | None = None
    without: DeletionVector | None = None
    only: DeletionVector | None = None
    number: int = 0
    is_paired: bool = False

    @property
    def has_unknown_pairs(self) -> bool:
        """Whether the images of updates in it, if there are any, are not known as pairs."""
        return self.change_type is None and not self.is_paired


def recorded_actions(commit: ParsedActions) -> list[tuple[str, dict[str, Any]]]:
    """The actions that hold a commit's changes, in order: all of its ``cdc`` actions, or each ``add`` and ``remove``
    that changes data. Each as (its kind, its content).
    """
    if commit.change_files:
        return [("cdc", action) for action in commit.change_files]
    if _is_merge_of_no_row(commit):
        return []
    return [
        ("add" if is_add else "remove", action) for is_add, action in commit.files if action.get("dataChange", True)
    ]


def _is_merge_of_no_row(commit: ParsedActions) -> bool:
    """Whether a commit is a MERGE that changed no row: the files it may have written again hold no change. Only engines
    that are known to count these rows are believed: others may leave the numbers at zero.
    """
    info = commit.commit_info or {}
    metrics = info.get("operationMetrics")
    if info.get("operation") != "MERGE" or not isinstance(metrics, dict):
        return False
    if _COUNTING_ENGINES.search(str(info.get("engineInfo"))) is None:
        return False
    return all(metrics.get(f"numTargetRows{what}") == "0" for what in ("Inserted", "Updated", "Deleted"))


def changed_files(
    version: int, commit: ParsedActions, table_path: str, store: Store, first: int = 0, end: int | None = None
) -> Iterator[ChangedFile]:
    """The files that hold a commit's changes.

    Deletion vectors are read only where a file has one before and after.

    :param first: of :func:`recorded_actions`, those from this one to before the one at ``end``.
    :raises HeadwaterError: ``DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA``, ``DELTA_CHANGE_DATA_FILE_NOT_FOUND``
        for a deletion vector that is gone, and those of reading one.
    """
    files = _changed_files(version, commit, table_path, store, first, end)
    for number, file in enumerate(files, first):
        yield replace(file, number=number)


def _changed_files(
    version: int, commit: ParsedActions, table_path: str, store: Store, first: int, end: int | None
) -> Iterator[ChangedFile]:
    adds: dict[str, Mapping[str, Any]] = {}
    removes: dict[str, Mapping[str, Any]] = {}
    for kind, action in recorded_actions(commit)[first:end]:
        if kind == "cdc":
            tags = action.get("tags") or {}
            yield ChangedFile(
                version,
                action["path"],
                action["size"],
                action.get("partitionValues") or {},
                is_paired=tags.get(PAIRED_TAG) == PAIRED,
            )
        else:
            (adds if kind == "add" else removes)[canonical_path(action["path"])] = action
    for path, add in adds.items():
        remove = removes.pop(path, None)
        if remove is None:
            yield _file(version, add, INSERT, without=_vector(add))
        else:
            yield from _difference(version, add, _vector(remove), _vector(add), table_path, store)
    for remove in removes.values():
        yield _file(version, remove, DELETE, without=_vector(remove))


def removes_data(commit: ParsedActions) -> bool:
    """Whether a commit's changes include rows that earlier versions wrote."""
    if commit.change_files:
        return True
    return any(not is_add and action.get("dataChange", True) for is_add, action in commit.files)


def _difference(
    version: int,
    file: Mapping[str, Any],
    old: DeletionVector | None,
    new: DeletionVector | None,
    table_path: str,
    store: Store,
) -> Iterator[ChangedFile]:
    if old is not None and new is not None:
        if old.unique_id == new.unique_id:
            return
        try:
            before, after = (deletion_vectors.read(vector, table_path, store) for vector in (old, new))
        except FileNotFoundError as error:
            raise file_not_found(version, str(error.filename or error), table_path) from None
        deleted, restored = bool(after - before), bool(before - after)
    else:
        deleted, restored = new is not None, old is not None
    if new is not None and deleted:
        yield _file(version, file, DELETE, without=old, only=new)
    if old is not None and restored:
        yield _file(version, file, INSERT, without=new, only=old)


def _file(
    version: int,
    action: Mapping[str, Any],
    change_type: str,
    without: DeletionVector | None = None,
    only: DeletionVector | None = None,
) -> ChangedFile:
    size, values = action.get("size"), action.get("partitionValues")
    if size is None or values is None:
        raise HeadwaterError(
            "DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA", {"file": action["path"], "version": version}
        )
    return ChangedFile(
        version, action["path"], size, values, change_type, action.get("modificationTime"), without, only
    )


def _vector(action: Mapping[str, Any]) -> DeletionVector | None:
    return DeletionVector.from_json(action.get("deletionVector"))


def file_not_found(version: int, path: str, table_path: str) -> HeadwaterError:
    """The error for a missing file of the range; most likely VACUUM deleted it."""
    return HeadwaterError(
        "DELTA_CHANGE_DATA_FILE_NOT_FOUND", {"filePath": path, "version": version, "tableLocation": table_path}
    )
