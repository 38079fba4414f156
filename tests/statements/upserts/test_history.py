"""Histories of keys, without Spark: the query that finds where rows end runs in SQLite, and a model judges the table.

``HEADWATER_TEST_EXAMPLES`` asks for another number of examples, drawn anew.
"""

from __future__ import annotations

import functools
import itertools
import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlglot
from hypothesis import given
from hypothesis import settings as drawing
from hypothesis import strategies as st
from sqlglot import exp

from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.sql.composing import Column, Placeholders, Query, Relation, select
from headwater.statements.internal_names import InternalNames
from headwater.statements.running.opening import Options
from headwater.statements.upserts import history
from headwater.statements.upserts.events import Events
from headwater.statements.upserts.history_columns import END, START, with_history
from headwater.statements.writes.upsert_options import upsert_of
from support.drawing import STEADY

EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "150"))
drawn = drawing(STEADY, max_examples=EXAMPLES, derandomize="HEADWATER_TEST_EXAMPLES" not in os.environ, print_blob=True)
INT, TEXT = PrimitiveType("integer"), PrimitiveType("string")
ROWS = StructType((StructField("id", INT), StructField("v", TEXT)))
TABLE = with_history(ROWS, INT)
OPTIONS = {"idcols": "id", "sequenceby": "at", "deletewhen": "gone", "storedas": "scd2"}
#: The plans of the query: events, stored rows, remembered deletions.
EVENTS, STORED, REMEMBERED = Relation(0), Relation(1), Relation(2)
SHOWN = Placeholders(lambda number: f"e{number}", lambda number: f"plan{number}")


class Event(NamedTuple):
    id: int
    at: float
    v: str | None
    gone: bool


#: A row of the history: key, value, start, end.
Row = tuple[int, str | None, float, float | None]


def ordered(events: Iterable[Event], *, ignores_nulls: bool = False) -> list[Row]:
    """The model: a key's events in the order of their sequences; each row ends where the next event is."""
    rows: list[Row] = []
    for _, group in itertools.groupby(sorted(set(events)), key=lambda event: event.id):
        of_key, known = list(group), None
        for event, following in itertools.zip_longest(of_key, of_key[1:]):
            known = None if event.gone else known if ignores_nulls and event.v is None else event.v
            if not event.gone:
                rows.append((event.id, known, event.at, following.at if following else None))
    return sorted(rows)


def events_with(**options: str) -> Events:
    upsert = upsert_of(Options({**OPTIONS, **options}))
    names = InternalNames.beside([*TABLE.names])
    return Events(upsert, ROWS, [ROWS.fields[0]], INT, {}, frozenset(), names)


class Table:
    """A table that keeps a history, its companion, and the clauses of the MERGE as Python does them."""

    def __init__(self, **options: str) -> None:
        self.events = events_with(**options)
        self.rows: dict[tuple[int, int], tuple[str | None, int | None]] = {}
        self.deletions: set[tuple[int, int]] = set()
        self.connection = sqlite3.connect(":memory:")
        at, deletes = self.events.sequence_name, self.events.deletes_name
        for text in (
            f'CREATE TABLE plan0 (id, v, "{at}", "{deletes}")',
            f"CREATE TABLE plan1 (id, v, {START}, {END})",
            f'CREATE TABLE plan2 (id, "{at}")',
        ):
            self.connection.execute(text)
        self.first = in_sqlite(history.of_new_table(self.events, EVENTS))
        stored = history.of_same_keys(history.starts_and_ends(self.events, STORED, TABLE), self.events, EVENTS)
        remembered = history.of_same_keys(select(Column("id"), Column(at), rows=REMEMBERED), self.events, EVENTS)
        self.source = in_sqlite(history.with_ends(self.events, EVENTS, stored, remembered, TABLE))

    def upsert(self, batch: Sequence[Event], *, is_first: bool = False) -> None:
        events = [(event.id, event.v, event.at, event.gone) for event in dict.fromkeys(batch)]
        stored = [(id, v, start, end) for (id, start), (v, end) in self.rows.items()]
        for plan, rows in enumerate((events, stored, list(self.deletions))):
            self.connection.execute(f"DELETE FROM plan{plan}")
            marks = ", ".join("?" * (2 if plan == 2 else 4))
            self.connection.executemany(f"INSERT INTO plan{plan} VALUES ({marks})", rows)
        self.deletions |= {(event.id, event.at) for event in batch if event.gone}
        if is_first:
            for id, v, start, end in self.connection.execute(self.first):
                self.rows[id, start] = v, end
            return
        for id, v, start, deletes, end in self.connection.execute(self.source).fetchall():
            if deletes is None:
                self.rows[id, start] = self.rows[id, start][0], end
            elif deletes:
                self.rows.pop((id, start), None)
            else:
                self.rows[id, start] = v, end

    def shown(self) -> list[Row]:
        return sorted((id, v, start, end) for (id, start), (v, end) in self.rows.items())


@functools.cache
def in_sqlite(query: Query) -> str:
    """The query as SQLite takes it, which has no ``first``: of at most one value, the greatest is the same."""
    tree = sqlglot.parse_one(query.text(SHOWN), read="spark")

    def replaced(node: Any) -> Any:
        if isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.First | exp.AnyValue):
            return exp.Max(this=node.this.this)
        if isinstance(node, exp.Join) and node.side == "LEFT" and node.kind == "SEMI":
            keys = exp.select(exp.Star()).from_(node.this.copy()).where(node.args["on"].copy())
            node.find_ancestor(exp.Select).where(exp.Exists(this=keys), copy=False)
            return None
        return node

    return tree.transform(replaced).sql(dialect="sqlite")


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[Event], list[int]]:
    """Events of a few keys, shuffled, some of them several times, and where the batches end."""
    count = draw(st.integers(1, 24))
    keys = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    gone = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    events = [Event(id, at, None if g else f"v{at}", g) for at, (id, g) in enumerate(zip(keys, gone, strict=True), 1)]
    repeated = draw(st.lists(st.sampled_from(events), max_size=8))
    return draw(st.permutations([*events, *repeated])), draw(st.lists(st.integers(0, 40), max_size=8))


def batches(events: Sequence[Event], ends: Sequence[int]) -> list[Sequence[Event]]:
    cuts = sorted({0, len(events), *(end % (len(events) + 1) for end in ends)})
    return [events[start:end] for start, end in itertools.pairwise(cuts)]


@drawn
@given(stories(), st.booleans())
def test_any_order_gives_the_history_of_the_ordered_events(story, creates):
    events, ends = story
    table = Table()
    for number, batch in enumerate(batches(events, ends)):
        table.upsert(batch, is_first=creates and number == 0)
    assert table.shown() == ordered(events)


@drawn
@given(stories(), st.integers(0, 40))
def test_deletions_that_are_forgotten_still_end_the_rows_before(story, end):
    """What an ended row says stays true: the companion is empty when the rest of the events arrives."""
    events = sorted(set(story[0]), key=lambda event: event.at)
    end %= len(events) + 1
    table = Table()
    table.upsert(events[:end], is_first=True)
    table.deletions.clear()
    table.upsert(events[end:])
    assert table.shown() == ordered(events)
    late = [event for event in events if not event.gone]
    table.upsert(late)
    assert table.shown() == ordered(events)


def test_events_that_change_nothing_are_in_the_source():
    """Its keys are all that the result depends on, so that a writer of one of them is a conflict."""
    table = Table()
    events = [Event(1, 1, "a", False), Event(2, 5, None, True)]
    table.upsert(events)
    table.upsert(events)
    found = table.connection.execute(table.source).fetchall()
    assert sorted((row[0], row[2]) for row in found) == [(1, 1), (2, 5)]


@drawn
@given(stories(), st.integers(0, 8), st.lists(st.integers(1, 3), max_size=8))
def test_deletions_that_were_undone_end_no_row(story, kept, keys):
    """The rows of an earlier batch are back. Of keys that have a current row again, updates give the history of what
    came before that batch's end and of themselves, whatever was deleted in between."""
    events, ends = story
    parts = batches(events, ends)
    table = Table()
    for batch in parts[:kept]:
        table.upsert(batch)
    rows = dict(table.rows)
    for batch in parts[kept:]:
        table.upsert(batch)
    table.rows = rows
    current = {id: start for (id, start), (_, end) in rows.items() if end is None}
    later: dict[tuple[int, float], Event] = {}
    for number, id in enumerate(keys):
        if id in current:
            # Halves are between the sequences of all other events.
            event = Event(id, current[id] + number % 5 + 0.5, f"later{number}", False)
            later[event.id, event.at] = event
    for event in later.values():
        table.upsert([event])
    found = [row for row in table.shown() if row[0] in current]
    expected = ordered([*itertools.chain(*parts[:kept]), *later.values()])
    assert found == [row for row in expected if row[0] in current]
