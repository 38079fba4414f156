"""What a transaction read; winners are checked against it.

Owns :class:`ReadSet`: the rows that a result depends on, told as the whole table, as predicates or as keys, and the
applications whose versions it asked for. Follows the protocol's chapter "Transaction Identifiers". Which files these
reads concern is worked out only where a winner makes it matter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from headwater.log.files import canonical_path
from headwater.log.snapshot import Snapshot
from headwater.transaction.conflicts import Reads, WinningCommit
from headwater.transaction.keyed import KeyReads
from headwater.transaction.reads import FileMatcher, PredicateReads

if TYPE_CHECKING:
    from headwater.pruning.predicates import Predicate


class ReadSet:
    """The reads of one transaction.

    :param snapshot: the version that is read; None to create the table.
    :param matcher: decides which files a predicate matches.
    """

    def __init__(self, snapshot: Snapshot | None, matcher: FileMatcher) -> None:
        self._snapshot = snapshot
        self._matcher = matcher
        self._predicates: list[tuple[Predicate, ...]] = []
        #: What answers for these predicates; it follows the rows that winners move.
        self._answers: PredicateReads | None = None
        self._keys: KeyReads | None = None
        self._key_predicates: tuple[Predicate, ...] = ()
        #: Whether the result depends on every row of the table.
        self.whole_table = False
        #: Whether it depends on there being no other version between.
        self.follows_directly = False
        #: The applications whose newest versions were asked for.
        self.app_ids: set[str] = set()

    def where(self, predicates: Sequence[Predicate]) -> None:
        """Note the rows for which all ``predicates`` are true; none mean every row."""
        if predicates:
            self._predicates.append(tuple(predicates))
            self._answers = None
        else:
            self.whole_table = True

    def keys(self, keys: KeyReads, predicates: Sequence[Predicate]) -> None:
        """Note the rows with one of these keys, for all of which the predicates are true. Rows that were noted by
        predicates alone are those that this transaction changes, whatever their keys are.
        """
        self._keys, self._key_predicates = keys, tuple(predicates)

    @property
    def predicates(self) -> Sequence[tuple[Predicate, ...]]:
        """What was read by predicates: rows for which all of one of these are true."""
        return self._predicates

    @property
    def key_reads(self) -> tuple[KeyReads, tuple[Predicate, ...]] | None:
        """What was read by keys, and the predicates that are true for all of these rows."""
        return None if self._keys is None else (self._keys, self._key_predicates)

    @property
    def is_by_keys(self) -> bool:
        """Whether it is known by their keys which rows the result depends on."""
        return self._keys is not None and not self.whole_table

    def version_of(self, app_id: str) -> int | None:
        """The newest version that an application has committed, None if it has not; noted as read."""
        self.app_ids.add(app_id)
        known = self._snapshot.set_transactions.get(app_id) if self._snapshot else None
        return known.version if known else None

    def for_check(self) -> Reads:
        """The reads as conflicts are checked against them."""
        if self._keys is not None and self._snapshot is not None:
            return Reads(True)  # of what concerning() leaves
        if self.whole_table or not self._predicates or self._snapshot is None:
            return Reads(self.whole_table and self._snapshot is not None)
        if self._answers is None:
            self._answers = PredicateReads(self._snapshot, self._predicates, self._matcher)
        predicates = tuple(predicate for some in self._predicates for predicate in some)
        return Reads(False, predicates, self._answers.may_match, self._answers.were_read)

    def follow(self, winner: WinningCommit) -> None:
        """Go on after a winner without a conflict: rows that were read may be in other files now."""
        if self._answers is not None:
            self._answers.follow(winner)

    def concerning(
        self, winner: WinningCommit, removed: Collection[str], marked: Collection[str], *, appends: bool
    ) -> tuple[WinningCommit, frozenset[str]]:
        """The part of a winner that concerns rows that were read; and, of the files in which both marked rows, those
        where the winner marked such rows.

        :param removed: canonical paths of the files this transaction removes, and ``marked`` if it marks rows.
        :param appends: whether files the winner added are a conflict at all.
        """
        if self._keys is None or self.whole_table:
            return winner, frozenset()
        assert self._snapshot is not None
        excluded: frozenset[str] = frozenset()
        if self._key_predicates and winner.metadata is None:
            excluded = self._excluded(winner, self._key_predicates)
        selected: frozenset[str] = frozenset()
        if self._predicates and winner.metadata is None:
            paths = [*(file.path for file in winner.adds), *(file.path for file in winner.removes)]
            selected = frozenset(map(canonical_path, paths)) - self._excluded(winner, *self._predicates)
        return self._keys.after(winner, removed, marked, excluded, selected, appends=appends)

    def _excluded(self, winner: WinningCommit, *reads: Sequence[Predicate]) -> frozenset[str]:
        assert self._snapshot is not None
        return PredicateReads(self._snapshot, reads, self._matcher).excluded(winner.adds, winner.removes)
