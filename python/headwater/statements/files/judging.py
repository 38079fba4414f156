"""Expectations as part of the query of a write: which rows are written, which are turned away, and how many violate
what.

Owns the column that says what a row violates: a number with a bit for each expectation of the table whose violations
are counted. A write job counts rows by it in the tasks whose files it keeps, so a repeated task counts none twice. Rows
for a quarantine table are staged: the same job writes them beside the change data of the table, with that number in
place of the type of change. So each row is computed once, whichever table it goes to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import WrittenFile
from headwater.change_data.changelog import CHANGE_TYPE
from headwater.protocol.file_names import CHANGE_DATA_DIRECTORY
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import PrimitiveType
from headwater.schema import expectations
from headwater.schema.constraints import Check
from headwater.schema.expectations import QUARANTINE, Expectation
from headwater.sql.composing import (
    FALSE,
    NULL,
    STAR,
    TRUE,
    Alias,
    Case,
    Cast,
    Column,
    Expression,
    Number,
    Query,
    Rows,
    Text,
    call,
    equal,
    infix,
    select,
    when,
)

#: The value of the change column in rows that are staged, and how the names of their files begin.
STAGED, _STAGED_PREFIX = Text("staged"), "cdc-staged-"
DATA, CHANGE = Text("false"), Text("true")
#: A row's number of an action and what it violates are one number: the most actions that a statement may have.
MOST_ACTIONS = 128
VIOLATED = "HEADWATER_EXPECTATION_VIOLATED"
_STRING, _INT, _LONG = PrimitiveType("string"), PrimitiveType("integer"), PrimitiveType("long")


@dataclass
class Violations:
    """What became of rows that violate expectations.

    :param by_name: how many rows violate each.
    :param staged: the files with the rows for the quarantine table.
    """

    kept: int = 0
    dropped: int = 0
    quarantined: int = 0
    by_name: Counter[str] = field(default_factory=Counter)
    staged: list[WrittenFile] = field(default_factory=list)

    def add(self, other: Violations) -> None:
        """Count those of another job as well."""
        self.kept += other.kept
        self.dropped += other.dropped
        self.quarantined += other.quarantined
        self.by_name += other.by_name
        self.staged += other.staged

    @property
    def turned_away(self) -> int:
        """How many rows were not written."""
        return self.dropped + self.quarantined

    @property
    def metrics(self) -> dict[str, int]:
        """The operation metrics; none if no row violates anything."""
        if not self.by_name:
            return {}
        return {
            expectations.KEPT_METRIC: self.kept,
            expectations.DROPPED_METRIC: self.dropped,
            expectations.QUARANTINED_METRIC: self.quarantined,
            **{expectations.VIOLATIONS_METRIC + name: self.by_name[name] for name in sorted(self.by_name)},
        }


@dataclass(frozen=True)
class Judging:
    """The expectations of a table whose violations are counted; the position of each is its bit."""

    expected: Sequence[Expectation]

    @staticmethod
    def of(definition: TableDefinition) -> Judging | None:
        """Those of a table; None if it has none.

        :raises HeadwaterError: ``HEADWATER_EXPECTATION_NOT_READABLE``, ``HEADWATER_INVALID_EXPECTATION``.
        """
        expected = expectations.counted(definition.metadata.configuration)
        for each in expected:
            if each.action == QUARANTINE:
                expectations.check_columns(each, definition.schema)
        return Judging(expected) if expected else None

    @property
    def without_turning_away(self) -> Judging | None:
        """Those that turn no row away; None if all do."""
        kept = [each for each in self.expected if not each.turns_away]
        return Judging(kept) if kept else None

    @property
    def turns_away(self) -> bool:
        """Whether a row may be turned away."""
        return any(each.turns_away for each in self.expected)

    @property
    def stages(self) -> bool:
        """Whether a row may be staged for a quarantine table."""
        return any(each.action == QUARANTINE for each in self.expected)

    def violated(self, parsed: Callable[[str], Expression]) -> Expression:
        """What a row violates: a condition that is null is violated too."""
        bits: list[Expression] = [
            when(parsed(each.sql), Number(0), Number(1 << bit)) for bit, each in enumerate(self.expected)
        ]
        return reduce(lambda left, right: infix("+", left, right), bits)

    def is_turned_away(self, violated: Expression) -> Expression:
        """Whether a row is turned away, by what it violates."""
        return _has(violated, self._bits(lambda each: each.turns_away))

    def is_staged(self, violated: Expression) -> Expression:
        """Whether a row goes to the quarantine table: this precedes dropping it."""
        return _has(violated, self._bits(lambda each: each.action == QUARANTINE))

    def _bits(self, among: Callable[[Expectation], bool]) -> int:
        return sum(1 << bit for bit, each in enumerate(self.expected) if among(each))

    def with_action(self, action: Expression, violated: Expression) -> Expression:
        """The number of an action and what the row violates, as one number that a job counts rows by."""
        return infix("+", action, infix("*", violated, Number(MOST_ACTIONS)))

    def counts(self, counted: Mapping[int, int]) -> tuple[dict[int, int], Violations]:
        """How many rows each action has, without those turned away, and the violations; from the counts by
        :meth:`with_action`.
        """
        actions: Counter[int] = Counter()
        found = Violations()
        staging, away = self._bits(lambda each: each.action == QUARANTINE), self._bits(lambda each: each.turns_away)
        for number, rows in counted.items():
            violated, action = divmod(number, MOST_ACTIONS)
            if violated & staging:
                found.quarantined += rows
            elif violated & away:
                found.dropped += rows
            else:
                actions[action] += rows
                found.kept += rows if violated else 0
            for bit, each in enumerate(self.expected):
                if violated >> bit & 1:
                    found.by_name[each.name] += rows
        return dict(actions), found

    def new_rows(
        self, columns: Sequence[Expression], rows: Rows, violated: str, change: str, *, changes: bool
    ) -> Query:
        """New rows as a tracked job takes them, which replace none.

        :param columns: of the table.
        :param violated: the column that says what a row violates.
        :param change: what the column is called that says where a row goes.
        :param changes: whether each row is also written as an ``insert``.
        """
        number, place = Column(violated), Column(change)
        away = self.is_turned_away(number)
        written: Expression = when(away, FALSE, TRUE)
        more: list[Expression] = []
        counted = self.with_action(Number(0), number)
        if self.has_places(changes):
            kept = call("array", DATA, CHANGE) if changes else call("array", DATA)
            places = [(self.is_staged(number), call("array", STAGED)), (away, call("array", DATA))]
            rows = select(STAR, Alias(call("explode", Case(tuple(places), kept)), change), rows=rows)
            kinds = ((equal(place, CHANGE), Text("insert")), (equal(place, STAGED), Cast(number, _STRING)))
            more = [Alias(Case(kinds), CHANGE_TYPE), place]
            written = infix("OR", infix("<>", place, DATA), written)
            counted = when(infix("<>", place, CHANGE), counted)
        control = [
            Alias(Cast(NULL, _INT), "file"),
            Alias(Cast(NULL, _LONG), "row"),
            Alias(counted, "action"),
            Alias(written, "written"),
            Alias(Cast(NULL, _LONG), "source"),
        ]
        return select(*columns, *more, *control, rows=rows)

    def has_places(self, changes: bool) -> bool:
        """Whether a job writes files of several kinds."""
        return changes or self.stages

    def reasons(self, violated: Expression) -> Expression:
        """The names of the expectations that a row violates, as an array."""
        names = [when(_has(violated, 1 << bit), Text(each.name)) for bit, each in enumerate(self.expected)]
        return call("array_compact", call("array", *names))


def too_many_clauses(definition: TableDefinition, clauses: int) -> HeadwaterError:
    """The error for a statement with so many clauses that its rows cannot be counted beside their violations."""
    first = expectations.counted(definition.metadata.configuration)[0]
    reason = f"A MERGE into it has at most {MOST_ACTIONS} clauses, and not {clauses}. Use several statements."
    return expectations.invalid(first, reason)


def _has(violated: Expression, bits: int) -> Expression:
    return infix("<>", infix("&", violated, Number(bits)), Number(0))


def fail_checks(definition: TableDefinition) -> list[tuple[Check, str]]:
    """The conditions that fail a write, each with the error condition it violates.

    :raises HeadwaterError: ``HEADWATER_EXPECTATION_NOT_READABLE``.
    """
    return [(each.check, VIOLATED) for each in expectations.failing(definition.metadata.configuration)]


def is_staged_file(file: WrittenFile) -> bool:
    """Whether a file that a job wrote has rows for a quarantine table."""
    folder, _, rest = file.path.partition("/")
    return folder == CHANGE_DATA_DIRECTORY and rest.rpartition("/")[2].startswith(_STAGED_PREFIX)


def unstaged(files: Sequence[WrittenFile]) -> tuple[list[WrittenFile], list[WrittenFile]]:
    """The files of a table, and those that are staged."""
    return [f for f in files if not is_staged_file(f)], [f for f in files if is_staged_file(f)]
