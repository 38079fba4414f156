"""Tables that a serializable transaction over several statements has read and does not change.

Owns :class:`OnlyRead`, by which COMMIT finds out whether what was read is still so (the rules are those of
:mod:`headwater.transaction.conflicts`, of the level ``Serializable``). Promise: when the group's commits are in the
logs, and before it is decided about, each commit of another is looked at. So of two such transactions that each read
what the other changes, one at least sees the other's commit, decided about or not, and neither waits for the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.log.commits import parse_actions
from headwater.log.snapshot import Snapshot
from headwater.protocol.file_names import commit_name, log_directory
from headwater.transaction.committers import StoreCommitter
from headwater.transaction.conflicts import Intent, Isolation, WinningCommit, check
from headwater.transaction.read_set import ReadSet
from headwater.transaction.reads import match_by_pruning
from headwater.transaction.same_table import check_same_table

if TYPE_CHECKING:
    from headwater.pruning.predicates import Predicate


class OnlyRead:
    """One table of them.

    :param snapshot: the version that was read, through the table's own store.
    :param read: what of it: rows for which all predicates of one of these are true; every row where one has none.
    """

    def __init__(self, snapshot: Snapshot, read: Sequence[Sequence[Predicate]]) -> None:
        self._snapshot = snapshot
        self._reads = ReadSet(snapshot, match_by_pruning)
        for predicates in read:
            self._reads.where(predicates)
        self._intent = Intent(snapshot.definition, self._reads.for_check(), isolation=Isolation.SERIALIZABLE)
        self._version = snapshot.version + 1

    def check(self) -> None:
        """Look at what others have committed since the last look.

        :raises HeadwaterError: a conflict; ``DELTA_SCHEMA_CHANGED_SINCE_ANALYSIS`` and others where another table is at
            the path now.
        """
        table, store = self._snapshot.table_path, self._snapshot.store
        check_same_table(self._snapshot, store)
        if not store.exists(f"{log_directory(table)}/{commit_name(self._version)}"):
            return
        files = StoreCommitter(table, store).commits_from(self._version)
        contents = store.read_many([file.path for file in files])
        for number, file, data in zip(itertools.count(self._version), files, contents, strict=False):
            actions = parse_actions(data, file.path)
            winner = WinningCommit.of_actions(number, actions, file.modification_time)
            check(self._intent, winner)
            self._reads.follow(winner)
        self._version += len(files)
