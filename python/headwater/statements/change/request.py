"""The resolved pieces of a DELETE, UPDATE or MERGE, as Spark's side sends them.

Owns what a statement makes of :class:`headwater.bridge.messages.change.ChangeRequest`. Relations and expressions are
numbers; in a query they stand as :class:`headwater.sql.composing.Relation` and
:class:`headwater.sql.composing.Resolved`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from headwater.bridge.messages.change import ChangeClause, ChangeRequest
from headwater.protocol.types import parse_schema
from headwater.pruning.predicates import Predicate, decode
from headwater.statements.internal_names import InternalNames


@dataclass(frozen=True)
class Clause:
    """What happens to some rows. ``kind``: ``update``, ``delete`` or ``insert``.

    :param condition: the number of its condition, None where it has none.
    :param values: the numbers of the new values, one for each column of the target; none for a delete.
    :param assigned: the columns the statement gave a value, in lower case.
    """

    kind: str
    condition: int | None = None
    condition_text: str | None = None
    values: Sequence[int] = ()
    assigned: frozenset[str] = frozenset()

    @staticmethod
    def of(clause: ChangeClause) -> Clause:
        return Clause(
            clause.kind,
            clause.condition,
            clause.condition_text,
            clause.values,
            frozenset(name.lower() for name in clause.assigned),
        )


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
    ``kind``: what a row is where there is change data. ``change``: whether it is a row of a change data file.
    """

    def __init__(self, names: InternalNames) -> None:
        self._names = names
        self.file, self.row = names.of("file_number"), names.of("row_position")
        self.action, self.written = names.of("action"), names.of("is_written")
        self.source, self.present, self.match = names.of("source_row"), names.of("has_source"), names.of("match_number")
        self.kind, self.change = names.of("row_kind"), names.of("is_change")

    def before(self, position: int) -> str:
        """The value before the statement of the column at a position of the table."""
        return self._names.of(f"before_{position}")

    def identity(self, position: int) -> str:
        """The next value of the identity column at a position of the table."""
        return self._names.of(f"identity_{position}")


@dataclass(frozen=True)
class DmlRequest:
    """A statement.

    :param version: the version it was analysed against.
    :param table_schema: JSON of the target's schema it was analysed against, new columns of a MERGE included.
    :param target: the target's relation; ``columns`` are its columns, in the table's order.
    :param condition_deterministic: whether the condition is true for the same rows whenever it is asked.
    :param predicates: those conjuncts of the condition that are over a row of the target alone.
    :param condition_columns: the target's columns the condition is about.
    :param runs_python: whether there are Python functions, which Spark runs for every row, before any condition.
    :param reads_target_elsewhere: whether the source or a subquery reads the target too.
    :param exact: whether these are the whole condition.
    :param source_names: the names of its columns.
    :param source_bytes: the source's size in bytes, by Spark's estimate before it optimises.
    :param source_is_scan: whether the source does no more than read files, and so may be read again.
    """

    table: str
    name: str
    version: int
    table_id: str
    table_schema: str
    target: int
    columns: Sequence[int]
    source: int | None
    source_columns: Sequence[int]
    source_names: Sequence[str]
    source_deterministic: bool
    source_bytes: int | None
    source_is_scan: bool
    condition: int | None
    condition_deterministic: bool
    condition_text: str | None
    condition_columns: frozenset[str]
    predicates: Sequence[Predicate]
    exact: bool
    keys: Sequence[Key]
    matched: Sequence[Clause]
    not_matched: Sequence[Clause]
    not_matched_by_source: Sequence[Clause]
    runs_python: bool
    reads_target_elsewhere: bool

    @cached_property
    def names(self) -> RewriteNames:
        """Names for the columns a rewrite adds to those of target and source."""
        columns = parse_schema(self.table_schema)
        physical = [column.physical_name for column in columns]
        return RewriteNames(InternalNames.beside([*columns.names, *physical, *self.source_names]))

    @staticmethod
    def of(request: ChangeRequest) -> DmlRequest:
        conjuncts = request.conjuncts
        predicates = [decode(c.target) for c in conjuncts if c.target is not None]
        return DmlRequest(
            table=request.table,
            name=request.name,
            version=request.version,
            table_id=request.table_id,
            table_schema=request.table_schema,
            target=request.target,
            columns=request.columns,
            source=request.source,
            source_columns=request.source_columns,
            source_names=request.source_names,
            source_deterministic=request.source_deterministic,
            source_bytes=request.source_bytes,
            source_is_scan=request.source_is_scan,
            condition=request.condition,
            condition_deterministic=request.condition_deterministic,
            condition_text=request.condition_text,
            condition_columns=frozenset(request.condition_columns),
            predicates=predicates,
            exact=len(predicates) == len(conjuncts),
            keys=[Key(c.key.column, c.key.value, c.key.type) for c in conjuncts if c.key is not None],
            matched=[Clause.of(c) for c in request.matched],
            not_matched=[Clause.of(c) for c in request.not_matched],
            not_matched_by_source=[Clause.of(c) for c in request.not_matched_by_source],
            runs_python=request.runs_python,
            reads_target_elsewhere=request.reads_target_elsewhere,
        )
