"""Where a stream of events is cut into batches makes no difference, without Spark: the queries run in SQLite.

A batch gives the table that its events give one by one, in the order of their sequences: with and without nulls that
leave values as they are, with deletions, and with events that come late.
"""

from __future__ import annotations

import functools
import itertools
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.sql.composing import (
    FALSE,
    STAR,
    Alias,
    Column,
    Expression,
    Field,
    IsNull,
    Join,
    Merge,
    Named,
    Placeholders,
    Query,
    Relation,
    call,
    equal,
    every,
    infix,
    select,
)
from headwater.statements.internal_names import InternalNames
from headwater.statements.running.opening import Options
from headwater.statements.upserts import merging
from headwater.statements.upserts.events import Events, folded
from headwater.statements.writes.upsert_options import upsert_of
from statements.upserts.test_history import drawn
from support.recording_statement import RecordingStatement

INT, TEXT = PrimitiveType("integer"), PrimitiveType("string")
ROWS = StructType((StructField("id", INT), StructField("at", INT), StructField("x", TEXT), StructField("y", TEXT)))
TARGET, EVENTS, DELETED = Relation(0), Relation(1), Relation(2)


class Event(NamedTuple):
    id: int
    at: int
    x: str | None
    y: str | None
    gone: bool


class MaxBy:
    """Spark's ``max_by``: a value where another one is greatest; nulls of the other do not count."""

    def __init__(self) -> None:
        self.found: list[tuple[Any, Any]] = []

    def step(self, value: Any, at: Any) -> None:
        if at is not None:
            self.found.append((at, value))

    def finalize(self) -> Any:
        return max(self.found, key=lambda pair: pair[0])[1] if self.found else None


UPSERT = upsert_of(Options({"idcols": "id", "sequenceby": "at", "deletewhen": "gone", "ignorenullupdates": "true"}))
NAMES = InternalNames.beside(ROWS.names)
IGNORING = Events(UPSERT, ROWS, [ROWS.fields[0]], INT, {}, frozenset({"at"}), NAMES)


@functools.cache
def queries() -> tuple[str, str]:
    """What becomes of each row with an event, and of each event without a row."""
    merge = merging.compose(IGNORING, 0, _compared(), RecordingStatement(), has_outdated=True, evolves=False)
    return _matched(merge), _unmatched(merge)


def _compared() -> Query:
    """As :func:`headwater.statements.upserts.deleted_keys.with_outdated` compares the events with the deletions."""
    newest = select(
        Alias(Column("id"), "deleted_id"),
        Alias(call("max", Column("at")), IGNORING.deleted_at_name),
        rows=DELETED,
        group_by=[Column("id")],
    )
    matches = equal(Column("id"), Column("deleted_id"))
    joined = Join(Named(folded(IGNORING, EVENTS), "events"), "LEFT OUTER", Named(newest, "deletions"), matches)
    is_older = infix("<", Column(IGNORING.sequence_name), Column(IGNORING.deleted_at_name))
    return select(STAR, Alias(call("coalesce", is_older, FALSE), IGNORING.outdated_name), rows=joined)


class Table:
    """A table of the newest rows, what is remembered of its deletions, and the clauses of the MERGE."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.create_aggregate("arg_max", 2, MaxBy)  # type: ignore[arg-type]
        for text in (
            "CREATE TABLE plan0 (id, at, x, y)",
            f'CREATE TABLE plan1 (id, at, x, y, "{IGNORING.deletes_name}", "{IGNORING.sequence_name}")',
            "CREATE TABLE plan2 (id, at)",
        ):
            self.connection.execute(text)
        self.matched, self.unmatched = queries()

    def upsert(self, batch: Sequence[Event]) -> None:
        execute = self.connection.execute
        execute("DELETE FROM plan1")
        self.connection.executemany(
            "INSERT INTO plan1 VALUES (?, ?, ?, ?, ?, ?)",
            [(e.id, e.at, e.x, e.y, e.gone, e.at) for e in dict.fromkeys(batch)],
        )
        changed, inserted = execute(self.matched).fetchall(), execute(self.unmatched).fetchall()
        for id, deletes, updates, *values in changed:
            if deletes or updates:
                execute("DELETE FROM plan0 WHERE id = ?", (id,))
            if updates and not deletes:
                execute("INSERT INTO plan0 VALUES (?, ?, ?, ?)", (id, *values))
        for inserts, *values in inserted:
            if inserts:
                execute("INSERT INTO plan0 VALUES (?, ?, ?, ?)", values)
        newest = {event.id: event for event in sorted(batch, key=lambda event: event.at)}
        for event in newest.values():
            if event.gone:
                execute("INSERT INTO plan2 VALUES (?, ?)", (event.id, event.at))

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.connection.execute("SELECT * FROM plan0"))


def _matched(merge: Merge) -> str:
    """Of each row with an event: its key, whether it is deleted, whether it is updated, and the new values."""
    deletes, updates = (clause.condition for clause in merge.clauses[:2])
    assert deletes is not None
    assert updates is not None
    values = [Alias(value, name) for name, value in merge.clauses[1].assigned or ()]
    joined = Join(merge.target, "LEFT OUTER", merge.source, merge.on)
    key = Field((merge.target.name, "id"))
    return _sqlite(select(Alias(key, "id"), Alias(deletes, "d"), Alias(updates, "u"), *values, rows=joined), merge)


def _unmatched(merge: Merge) -> str:
    """Of each event without a row: whether it is inserted, and the values."""
    inserts, key = merge.clauses[2].condition, Field((merge.target.name, "id"))
    assert inserts is not None
    is_new = every(inserts, IsNull(key))
    assert is_new is not None
    values: list[Expression] = [Alias(value, name) for name, value in merge.clauses[2].assigned or ()]
    return _sqlite(
        select(Alias(is_new, "i"), *values, rows=Join(merge.source, "LEFT OUTER", merge.target, merge.on)), merge
    )


def _sqlite(query: Query, merge: Merge) -> str:
    shown = Placeholders(lambda _: f"{merge.target.name}.at", lambda number: f"plan{number}")
    text = query.text(shown)
    return sqlglot.parse_one(text, read="spark").sql(dialect="sqlite")


def ordered(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """The model: the events one by one, in the order of their sequences."""
    table: dict[int, Event] = {}
    for event in sorted(set(events), key=lambda event: event.at):
        known = table.pop(event.id, None)
        if not event.gone:
            x, y = (
                given if given is not None or known is None else getattr(known, name)
                for name, given in (("x", event.x), ("y", event.y))
            )
            table[event.id] = event._replace(x=x, y=y)
    return sorted(tuple(event)[:4] for event in table.values())


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[Event], list[int], list[int]]:
    """Events of a few keys in order, where batches end, and an order in which they arrive."""
    count = draw(st.integers(1, 16))
    values = st.sampled_from([None, "a", "b", "c"])
    events = [
        Event(draw(st.integers(1, 2)), at, draw(values), draw(values), draw(st.integers(0, 4)) == 0)
        for at in range(1, count + 1)
    ]
    return events, draw(st.lists(st.integers(0, 40), max_size=6)), draw(st.permutations(range(count)))


def batches(events: Sequence[Event], ends: Sequence[int]) -> list[Sequence[Event]]:
    cuts = sorted({0, len(events), *(end % (len(events) + 1) for end in ends)})
    return [events[start:end] for start, end in itertools.pairwise(cuts)]


@drawn
@given(stories())
def test_any_cutting_of_ordered_events_gives_the_same_table(story):
    events, ends, _ = story
    table = Table()
    for batch in batches(events, ends):
        table.upsert(batch)
    assert table.rows() == ordered(events)


@drawn
@given(stories())
def test_a_batch_is_its_events_one_by_one(story):
    """Whatever came before it, events that are newer too: what is late changes nothing, nor what it brings."""
    events, ends, arrival = story
    whole, single = Table(), Table()
    for batch in batches([events[number] for number in arrival], ends):
        whole.upsert(batch)
        for event in sorted(batch, key=lambda event: event.at):
            single.upsert([event])
        assert whole.rows() == single.rows()
