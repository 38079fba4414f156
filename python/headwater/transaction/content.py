"""What a transaction writes: the actions of its commit except protocol, metadata and ``commitInfo``.

Owns :class:`Content`: files that come and go, change data, rows marked deleted, rows copied, domains and application
versions; and how marks and copies go with what winners did to the same files. Follows the protocol's chapters "Actions"
and "Transaction Identifiers".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.log.files import FileKey, canonical_path
from headwater.protocol.actions import Action, AddCDCFile, AddFile, DomainMetadata, RemoveFile, SetTransaction
from headwater.transaction.bulk import Bulk, partitions_of
from headwater.transaction.commit_info import describe_files
from headwater.transaction.conflicts import WinningCommit, file_key, took
from headwater.transaction.moved_rows import Copies, follow
from headwater.transaction.row_level import Marks, VectorFiles

#: The values of a file's partition columns, by physical name.
Values = Mapping[str, str | None]


class Content:
    """The actions of one transaction. Statements fill it; winners may change what is marked, copied and removed."""

    def __init__(self) -> None:
        self.removed: list[RemoveFile] = []
        self.added: list[AddFile] = []
        #: Files of the table that are committed once more, with other fields.
        self.again: list[AddFile] = []
        self.changes: list[AddCDCFile] = []
        self.marks = Marks()
        self.copies = Copies()
        #: Files that are so many that they stay tables.
        self.bulk: Bulk | None = None
        self.versions: dict[str, SetTransaction] = {}
        self.domains: dict[str, DomainMetadata] = {}

    @property
    def removes(self) -> list[RemoveFile]:
        """All ``remove`` actions, in the order of the commit."""
        return [*self.removed, *self.copies.removes, *self.marks.removes]

    @property
    def adds(self) -> list[AddFile]:
        """All ``add`` actions, in the order of the commit."""
        return [*self.added, *self.copies.adds, *self.marks.adds, *self.again]

    @property
    def file_actions(self) -> list[Action]:
        """All actions of single files, in the order of the commit."""
        return [*self.removes, *self.adds, *self.changes]

    @property
    def state_actions(self) -> list[Action]:
        """The actions of no file."""
        return [*self.versions.values(), *self.domains.values()]

    @property
    def is_empty(self) -> bool:
        """Whether there is no action at all."""
        return not (self.versions or self.domains or self.file_actions or self.bulk)

    @property
    def num_files(self) -> int:
        """How many actions of files there are."""
        return len(self.file_actions) + len(self.bulk or ())

    @property
    def taken(self) -> frozenset[FileKey]:
        """The keys of the logical files that are removed, or added again as they are."""
        files: list[AddFile | RemoveFile] = [*self.removes, *self.again]
        return frozenset(file_key(file.path, file.deletion_vector) for file in files)

    @property
    def removes_rows(self) -> bool:
        """Whether rows go, in files or by marks; compaction removes none."""
        return any(file.data_change for file in self.removes)

    @property
    def marks_rows(self) -> bool:
        """Whether there are new deletion vectors."""
        return bool(self.marks.paths) or any(file.deletion_vector for file in self.added)

    @property
    def rearranges_only(self) -> bool:
        """Whether there are files, and all of them rearrange rows that the table has."""
        files: list[AddFile | RemoveFile] = [*self.adds, *self.removes]
        return bool(files) and not any(file.data_change for file in files)

    @property
    def is_append(self) -> bool:
        """Whether it takes nothing from the table and changes none of its files."""
        return not (self.removes or self.again or self.bulk)

    @property
    def in_words(self) -> tuple[str, str]:
        """What is added and what is removed, for the log of the process."""
        if self.bulk is not None:
            return f"{self.bulk.added.num_rows} files", f"{self.bulk.removed.num_rows} files"
        return describe_files(self.adds), describe_files(self.removes)

    @property
    def partitions_written(self) -> list[Values]:
        """The partition values of the files that are added with new rows, a mapping for each partition."""
        values = {tuple(sorted(add.partition_values.items())): add for add in self.added if add.data_change}
        bulk = [] if self.bulk is None else partitions_of(self.bulk.added)
        return [*(add.partition_values for add in values.values()), *bulk]

    @property
    def partitions_changed(self) -> list[Values] | None:
        """The partition values of the files that are added or removed, a mapping for each partition; None if a
        removal does not say.
        """
        values: dict[tuple[tuple[str, str | None], ...], Values] = {}
        files: list[AddFile | RemoveFile] = [*self.removes, *self.adds]
        for file in files:
            if file.partition_values is None:
                return None
            values[tuple(sorted(file.partition_values.items()))] = file.partition_values
        if self.bulk is not None:
            for some in (*partitions_of(self.bulk.removed), *partitions_of(self.bulk.added)):
                values[tuple(sorted(some.items()))] = some
        return list(values.values())

    @property
    def removed_paths(self) -> set[str]:
        """The canonical paths of the files that are removed whole, without a copy of their rows on record."""
        return {canonical_path(file.path) for file in self.removed}

    def follow_moves(self, winner: WinningCommit, vectors: VectorFiles, *, may_mark: bool) -> WinningCommit:
        """Go with rows that a winner moved, and take along rows that it deleted; what of it is still to be checked.

        :param may_mark: whether the table may have new deletion vectors.
        :raises HeadwaterError: ``DELTA_CONCURRENT_DELETE_DELETE`` if no copy of this transaction is left.
        """
        left, self.removed = follow(winner, self.marks, self.removed, vectors.read, vectors.write, may_mark=may_mark)
        sources: Sequence[RemoveFile] = self.copies.sources
        left = self.copies.after(left, vectors.read, vectors.write, may_mark=may_mark)
        if sources and not self.copies:
            raise took(winner, sources)
        return left
