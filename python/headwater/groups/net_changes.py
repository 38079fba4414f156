"""The change data of several statements on one table, combined into the change data of one commit.

Owns which rows such a commit has to record, and which statements cannot be part of it. Follows the protocol's chapter
"Add CDC File": where a commit has change data files, readers of the change feed read nothing else of it.

A statement is *plain* where the log alone shows what it changed: all rows of the files that it adds are new, and all
rows that it takes away are deleted. It has no change data files; or it has, but takes rows only out of files that plain
statements of the transaction wrote: then the rows of its own files are new to the table, whatever they were before. Of
plain statements alone, what they come to is the change feed, and no change data is committed. Beside a statement that
is not plain, whose change data files have its changes, the changes of plain ones have to be recorded as well:
:func:`missing` names them.

Promise: a commit's change data is what the table has more and less than before, as long as :func:`check` allows each
statement. It refuses one that would change rows twice, as change data does not say which preimage a postimage has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log.files import canonical_path
from headwater.protocol.actions import AddFile, DeletionVector
from headwater.protocol.types import StructType
from headwater.transaction.content import Content
from headwater.transaction.row_level import ReadVector


@dataclass
class DeletedRows:
    """Rows of a file of the version that was read: those at ``positions``, and, where the file was removed, all that
    were ``left``: those whose positions are not in this set.

    :param path: as the log has it.
    """

    path: str
    positions: BitMap64 = field(default_factory=BitMap64)
    left: BitMap64 | None = None

    def others(self, rows: int) -> BitMap64:
        """The positions of the other rows of the file, which has so many in all."""
        everything = BitMap64()
        everything.add_range(0, rows)
        return (everything if self.left is None else self.left) - self.positions


@dataclass(frozen=True)
class Missing:
    """Changes that must be recorded in change data files as well: all rows of some files were inserted, and rows of
    others deleted.
    """

    inserted: Sequence[AddFile]
    deleted: Sequence[DeletedRows]


def check(contents: Sequence[Content], before: StructType, after: StructType, table: str) -> None:
    """Refuse the last of several statements if the change data of all cannot be computed.

    :param before: the columns of the version that was read; ``after``: those after the last statement.
    :param table: for people.
    :raises HeadwaterError: ``HEADWATER_NOT_IN_TRANSACTION``.
    """
    seen = _Seen(contents)
    if seen.changes_twice:
        raise _refused("changes rows of a file that the transaction wrote, rows copied there included,", table)
    if not all(seen.plain) and not _can_be_read_as(before, after):
        raise _refused("changes the type of a column, beside others that change rows,", table)


def are_plain(contents: Sequence[Content]) -> list[bool]:
    """For each statement, whether the log alone shows what it changed."""
    return _Seen(contents).plain


def missing(contents: Sequence[Content], read: ReadVector) -> Missing | None:
    """What change data the statements lack; None if they need none, which is known without a deletion vector."""
    seen = _Seen(contents)
    if all(seen.plain):
        return None
    net = _PlainNet(read)
    for content, own, is_plain in zip(contents, seen.own, seen.plain, strict=True):
        if is_plain:
            net.take(content, own)
    found = Missing([file for file in net.added.values() if file.data_change], list(net.deleted.values()))
    return found if found.inserted or found.deleted else None


def _refused(what: str, table: str) -> HeadwaterError:
    what = f"On a table with the change data feed, a statement that {what}"
    return HeadwaterError("HEADWATER_NOT_IN_TRANSACTION", {"statement": what, "tableName": table})


def _can_be_read_as(before: StructType, after: StructType) -> bool:
    """Whether files of the version that was read can be read with other columns."""
    types = {column.physical_name: column.type for column in before}
    return all(types.get(column.physical_name, column.type) == column.type for column in after)


class _Seen:
    """What is known of files once statements were looked at, one after the other."""

    def __init__(self, contents: Sequence[Content]) -> None:
        #: For each statement, whether it is plain.
        self.plain: list[bool] = []
        #: For each statement, the canonical paths of the transaction's own files that it takes rows out of.
        self.own: list[set[str]] = []
        #: Whether one changes what another has changed in a way that cannot be recorded.
        self.changes_twice = False
        #: By canonical path of files that the transaction wrote: whether a plain statement did.
        self._wrote: dict[str, bool] = {}
        self._of_table: set[str] = set()
        for content in contents:
            self._take(content)

    def _take(self, content: Content) -> None:
        taken = {canonical_path(file.path) for file in (*content.removed, *content.marks.removes)}
        own = taken & self._wrote.keys()
        self._of_table |= taken - own
        is_plain = not content.changes or own == taken
        if own and not (is_plain and all(self._wrote[path] for path in own)):
            self.changes_twice = True
        self.plain.append(is_plain)
        self.own.append(own)
        for file in content.added:
            path = canonical_path(file.path)
            if path not in self._of_table:  # else a file of the table, with more of its rows deleted
                self._wrote[path] = is_plain and file.data_change


class _PlainNet:
    """What plain statements come to."""

    def __init__(self, read: ReadVector) -> None:
        self._read = read
        #: By canonical path: files that they wrote, and rows of the table's that they deleted.
        self.added: dict[str, AddFile] = {}
        self.deleted: dict[str, DeletedRows] = {}

    def take(self, content: Content, own: set[str]) -> None:
        added = {canonical_path(file.path): file for file in content.added}
        for file in content.removed:
            path = canonical_path(file.path)
            again = added.pop(path, None)
            if path in own:
                self.added.pop(path, None)
                if again is not None:
                    self.added[path] = again
            elif file.data_change:
                rows = self._rows(path, file.path)
                if again is None:
                    rows.left = self._vector(file.deletion_vector)
                else:
                    rows.positions |= self._vector(again.deletion_vector) - self._vector(file.deletion_vector)
        for mark in content.marks.all:
            path = canonical_path(mark.remove.path)
            if path not in own:
                self._rows(path, mark.remove.path).positions |= mark.positions
            elif mark.add is not None:
                self.added[path] = mark.add
            else:
                self.added.pop(path, None)
        self.added |= added

    def _rows(self, path: str, name: str) -> DeletedRows:
        return self.deleted.setdefault(path, DeletedRows(name))

    def _vector(self, vector: DeletionVector | None) -> BitMap64:
        return BitMap64() if vector is None else self._read(vector)
