"""The resolved pieces of a DELETE, UPDATE or MERGE, as Spark's side sends them.

Owns what a statement derives from its message, :class:`headwater.bridge.messages.change.ChangeRequest`. Relations and
expressions are numbers; in a query they stand as :class:`headwater.sql.composing.Relation` and
:class:`headwater.sql.composing.Resolved`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from msgspec import structs

from headwater.bridge.messages.change import ChangeClause, ChangeRequest, Conjunct
from headwater.protocol.types import parse_schema
from headwater.pruning.predicates import Predicate, decode
from headwater.statements.internal_names import InternalNames
from headwater.statements.running.committing import Application
from headwater.statements.running.opening import Options


@dataclass(frozen=True)
class Clause:
    """What happens to some rows. ``kind``: ``update``, ``delete`` or ``insert``.

    :param condition: the number of its condition, None if it has none.
    :param values: the numbers of the new values, one for each column of the target; none for a delete.
    :param assigned: the columns the statement gave a value, in lower case.
    :param predicates: of a WHEN NOT MATCHED BY SOURCE clause, what is true for every row it acts on; none if it may act
        on any row.
    """

    kind: str
    condition: int | None = None
    condition_text: str | None = None
    values: Sequence[int] = ()
    assigned: frozenset[str] = frozenset()
    predicates: Sequence[Predicate] = ()

    @staticmethod
    def of(clause: ChangeClause) -> Clause:
        return Clause(
            clause.kind,
            clause.condition,
            clause.condition_text,
            clause.values,
            frozenset(name.lower() for name in clause.assigned),
            _over_target(clause.conjuncts),
        )


def _over_target(conjuncts: Sequence[Conjunct]) -> Sequence[Predicate]:
    return [decode(conjunct.target) for conjunct in conjuncts if conjunct.target is not None]


@dataclass(frozen=True)
class Key:
    """A column of the target that equals an expression (its number) over the source, in the condition of a MERGE."""

    column: str
    value: int
    type: str


class RewriteNames:
    """Names of the columns that a rewrite adds to the user's.

    ``file``, ``row``: the number of the file that a row of the target is in, and its position there. ``action``: the
    number of the action taken. ``written``: whether the row is written. ``source``: the number of the source row.
    ``present``: true in rows that have a source row. ``match``: the number of the match among those of its target row.
    ``row_id``, ``row_commit_version``: of a row of the target, where it has row tracking.
    ``kind``: what a row is where there is change data. ``change``: whether it is a row of a change data file.
    ``violated``: which expectations the row does not meet.
    """

    def __init__(self, names: InternalNames) -> None:
        self._names = names
        self.file, self.row = names.of("file_number"), names.of("row_position")
        self.action, self.written = names.of("action"), names.of("is_written")
        self.source, self.present, self.match = names.of("source_row"), names.of("has_source"), names.of("match_number")
        self.row_id, self.row_commit_version = names.of("row_id"), names.of("row_commit_version")
        self.kind, self.change = names.of("row_kind"), names.of("is_change")
        self.violated = names.of("violated")

    def before(self, position: int) -> str:
        """The value before the statement of the column at a position of the table."""
        return self._names.of(f"before_{position}")

    def identity(self, position: int) -> str:
        """The next value of the identity column at a position of the table."""
        return self._names.of(f"identity_{position}")


@dataclass(frozen=True)
class DmlRequest:
    """A statement: its message, and what is derived from it once.

    :param options: those of a writer; DELETE, UPDATE and MERGE have none.
    :param application: the application id and version of the commit, of a stream's batch.
    :param parameters: what the table's history shows beside the statement's own parameters.
    """

    message: ChangeRequest
    options: Options = field(default_factory=lambda: Options(None))
    application: Application | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def predicates(self) -> Sequence[Predicate]:
        """Those conjuncts of the condition that are over a row of the target alone."""
        return _over_target(self.message.conjuncts)

    @property
    def exact(self) -> bool:
        """Whether :attr:`predicates` are the whole condition."""
        return len(self.predicates) == len(self.message.conjuncts)

    @cached_property
    def condition_columns(self) -> frozenset[str]:
        """The target's columns that the condition is about."""
        return frozenset(self.message.condition_columns)

    @cached_property
    def keys(self) -> Sequence[Key]:
        """The equalities between a column of the target and the source."""
        return [Key(c.key.column, c.key.value, c.key.type) for c in self.message.conjuncts if c.key is not None]

    @cached_property
    def matched(self) -> Sequence[Clause]:
        """The WHEN MATCHED clauses; of an UPDATE, its assignments."""
        return [Clause.of(c) for c in self.message.matched]

    @cached_property
    def not_matched(self) -> Sequence[Clause]:
        """The WHEN NOT MATCHED clauses."""
        return [Clause.of(c) for c in self.message.not_matched]

    @cached_property
    def not_matched_by_source(self) -> Sequence[Clause]:
        """The WHEN NOT MATCHED BY SOURCE clauses."""
        return [Clause.of(c) for c in self.message.not_matched_by_source]

    @cached_property
    def names(self) -> RewriteNames:
        """Names for the columns a rewrite adds to those of target and source."""
        columns = parse_schema(self.message.table_schema)
        physical = [column.physical_name for column in columns]
        return RewriteNames(InternalNames.beside([*columns.names, *physical, *self.message.source_names]))

    def without_inserts(self) -> DmlRequest:
        """The same statement without its WHEN NOT MATCHED clauses."""
        return replace(self, message=structs.replace(self.message, not_matched=[]))
