"""Which deletions of a companion table count: the deletions of batches that are in the table.

Owns the marks on the companion's files and what they mean. Two tables cannot commit at once, so a batch writes its
deletions to the companion first, and whether they count is decided by the table's commit alone. Failure model: anything
between the two may fail, lose a race or be killed, the outcome of either commit may be unknown, and other batches do
the same at the same time.

1. Each batch takes a number that no other has. Its files in the companion are marked with it, with the number that the
   table's ``txn`` names at that time (``after``), and with the table's version.
2. Its commit to the table has a ``txn`` with its number, and depends on the ``txn`` being the one of ``after``. A batch
   that lost to another marks its files again, with a new number.
3. So the batches that are in the table form a chain: the one that the ``txn`` names, the one that it came after, and so
   on. Files of the chain count, all others with a mark do not (:func:`counted`).
4. A later commit to the companion takes the marks off the files of the chain that it knows of. Files without a mark
   count; so do those of companions that were written before there were marks. A chain that is cut off in the
   companion goes on with such files only.
5. A file whose ``after`` the ``txn`` no longer names, and that is not in the chain, can never be in it: its batch has
   failed, or marks it again. It goes (:func:`given_up`), judged by the table as it was after the companion was read.

A table property may have the ``txn`` expire. Which batches were in the table, its commits since their marks then say
(:func:`batches_in`).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.log.commits import parse_actions
from headwater.log.files import file_of
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import AddFile

_BATCH, _AFTER, _VERSION = "headwater.batch", "headwater.batch.after", "headwater.batch.tableVersion"
#: Of a mark that cannot be read: no ``txn`` names it.
_NOBODY = -1


class Mark(NamedTuple):
    """What a file of a batch that may not be in the table says.

    :param after: the batch that the table's ``txn`` named; None if it named none.
    :param version: the table's version at that time; -1 where there was no table.
    """

    batch: int
    after: int | None
    version: int

    @staticmethod
    def new(after: int | None, version: int) -> Mark:
        # Whole numbers of this size are exact for readers that take them for floating-point ones.
        return Mark(uuid.uuid4().int >> 80, after, version)

    def put_on(self, files: Iterable[AddFile]) -> list[AddFile]:
        """The files with the mark, instead of the one that they have."""
        after = "" if self.after is None else str(self.after)
        mine = {_BATCH: str(self.batch), _AFTER: after, _VERSION: str(self.version)}
        return [replace(file, tags={**(file.tags or {}), **mine}) for file in files]


def unmarked(files: pa.Table) -> list[AddFile]:
    """Rows of ``snapshot.files`` as files without a mark."""
    found = []
    for row in files.to_pylist():
        file = file_of(row)
        tags = {name: value for name, value in (file.tags or {}).items() if name not in (_BATCH, _AFTER, _VERSION)}
        found.append(replace(file, tags=tags or None))
    return found


def marks(files: pa.Table) -> Sequence[Mark | None]:
    """The mark of each row of ``snapshot.files``."""
    tags = files["tags"]
    if tags.null_count == len(tags):
        return [None] * len(tags)
    return [_mark(dict(each or ())) for each in tags.to_pylist()]


def _mark(tags: Mapping[str, Any]) -> Mark | None:
    if _BATCH not in tags:
        return None
    try:
        after = tags.get(_AFTER)
        return Mark(int(tags[_BATCH]), int(after) if after else None, int(tags.get(_VERSION, -1)))
    except (TypeError, ValueError):
        return Mark(_NOBODY, None, -1)


def counted(files: pa.Table, named: Collection[int]) -> pa.Table:
    """The files that count: those without a mark, and those of the chains that begin with the named batches."""
    return files.filter(_mask(_counts(marks(files), named)))


def _counts(found: Sequence[Mark | None], named: Collection[int]) -> list[bool]:
    after = {mark.batch: mark.after for mark in found if mark is not None and mark.batch != _NOBODY}
    chain = set[int]()
    for first in named:
        batch: int | None = first
        while batch is not None and batch in after and batch not in chain:
            chain.add(batch)
            batch = after[batch]
    return [mark is None or mark.batch in chain for mark in found]


def confirmed(files: pa.Table, named: Collection[int]) -> pa.Table:
    """Of the files that count, those that have a mark."""
    found = marks(files)
    return files.filter(
        _mask([counts and mark is not None for mark, counts in zip(found, _counts(found, named), strict=True)])
    )


def given_up(files: pa.Table, named: int | None, *, expired_before: int, without: Collection[str] = ()) -> pa.Table:
    """The files that do not count and never will, and those that would have expired.

    :param named: what the table's ``txn`` names, read after the companion.
    :param expired_before: milliseconds since the epoch.
    :param without: paths of files that are to be left out.
    """
    found = marks(files)
    counts = _counts(found, () if named is None else (named,))
    rows = zip(found, counts, files["path"].to_pylist(), files["modification_time"].to_pylist(), strict=True)
    return files.filter(
        _mask(
            [
                mark is not None
                and not is_counted
                and path not in without
                and (named is not None and mark.after != named or modified < expired_before)
                for mark, is_counted, path, modified in rows
            ]
        )
    )


def _mask(values: Sequence[bool]) -> pa.BooleanArray:
    return pa.array(values, pa.bool_())


# -- What the table says -----------------------------------------------------------------------------------------------


def batch_named(table: Snapshot, application: str) -> int | None:
    """The batch that a version's ``txn`` names, expired or not; None if it names no batch."""
    found = table.state.transactions.get(application)
    return None if found is None else found.version


def may_have_expired(table: Snapshot) -> bool:
    """Whether a version that has no ``txn`` of an application may have had one."""
    return table.definition.get(properties.TRANSACTION_RETENTION) is not None


def batches_in(table: Snapshot, application: str, files: pa.Table) -> set[int]:
    """Of the batches that files are marked with, those that are in the table, as far as its commits are still there.

    A batch whose commit has been cleaned up counts as failed: that of one that did not fail took its mark off.
    """
    found = [mark for mark in marks(files) if mark is not None]
    if not found:
        return set()
    since = max(0, min(mark.version for mark in found))
    named = set[int]()
    for version, file in list_log(table.table_path, table.store, since).commits.items():
        if version > table.version:
            continue
        try:
            data = table.store.read(file.path)
        except FileNotFoundError:
            continue
        if application.encode() in data and (txn := parse_actions(data, file.path).transactions.get(application)):
            named.add(txn.version)
    return named & {mark.batch for mark in found}
