"""Expectations of upserts that compare events: an event is turned away before the newest of its key is chosen.

A model in plain Python judges and orders random events, in batches and in streams. Its seed and the number of examples
are those of ``HEADWATER_TEST_SEED`` and ``HEADWATER_TEST_EXAMPLES``.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.gates import Gate, register

SEED = int(os.environ.get("HEADWATER_TEST_SEED", "20260101"))
EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "1"))
COLUMNS = "id INT, at INT, amount BIGINT, p STRING, gone BOOLEAN"
OPTIONS = {"idCols": "id", "sequenceBy": "at", "deleteWhen": "gone", "exceptColumns": "gone"}
QUARANTINE = (
    "CREATE TABLE bad (id INT, at INT, amount INT, p STRING, quarantine_reason ARRAY<STRING>, "
    "quarantine_time TIMESTAMP, quarantine_source STRUCT<table: STRING, operation: STRING>) USING delta "
    "TBLPROPERTIES ('headwater.quarantine' = 'true')"
)
LAYOUTS = {
    "vectors, changes": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')",
    "copies, partitions": "PARTITIONED BY (p)",
    "mapped, tracked": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true')",
}


class Event(NamedTuple):
    id: int | None
    at: int | None
    amount: int | None
    p: str | None
    gone: bool


#: Name, condition, what becomes of events that violate it, and the condition in Python.
EXPECTED = {
    "has_id": ("id IS NOT NULL", "DROP ROW", lambda e: e.id is not None),
    "has_at": ("at IS NOT NULL", "DROP ROW", lambda e: e.at is not None),
    "has_p": ("p IS NOT NULL", "QUARANTINE INTO bad", lambda e: e.p is not None),
    "positive": ("amount > 0", "QUARANTINE INTO bad", lambda e: e.amount is not None and e.amount > 0),
    "usual": ("amount < 50", None, lambda e: e.amount is not None and e.amount < 50),
}


class Model:
    """The good events and the deletions, and what is turned away."""

    def __init__(self, history: bool) -> None:
        self.history = history
        self.events: set[Event] = set()
        self.bad: Counter[tuple[Any, ...]] = Counter()
        self.counts: Counter[str] = Counter()

    def rows(self) -> list[tuple[Any, ...]]:
        """The table's rows, with their ends in a history."""
        found = []
        for key in {event.id for event in self.events}:
            own = sorted((event for event in self.events if event.id == key), key=lambda event: event.at or 0)
            ends = [event.at for event in own[1:]] + [None]
            for event, end in zip(own, ends, strict=True):
                if not event.gone and (self.history or end is None):
                    found.append((*event[:4], event.at, end) if self.history else event[:4])
        return found

    def batch(self, events: list[Event]) -> None:
        """Judge and add a batch; ``counts`` has what its commit counts then."""
        self.counts = Counter()
        good: set[Event] = set()
        for event in events:
            violated = [] if event.gone else [name for name in sorted(EXPECTED) if not EXPECTED[name][2](event)]
            actions = {EXPECTED[name][1] for name in violated} - {None}
            if not actions:
                good.add(event)
                continue
            for name in violated:
                self.counts[f"numViolations.{name}"] += 1
            if "QUARANTINE INTO bad" in actions:
                self.counts["numRowsQuarantinedByExpectations"] += 1
                start = (event.at,) if self.history else ()
                away = (*event[:4], *start, tuple(violated), "MERGE")
                self.bad[away] += 1
            else:
                self.counts["numRowsDroppedByExpectations"] += 1
        self.events |= good
        if not self.history:
            # The newest event of a key is written again if it comes again.
            written = {row[:2] for row in self.rows()} & {(event.id, event.at) for event in good}
            unusual = sum(event[:2] in written and not EXPECTED["usual"][2](event) for event in good)
            self.counts["numViolations.usual"] += unusual
            self.counts["numRowsKeptAgainstExpectations"] += unusual


def _batches(draw: random.Random) -> list[list[Event]]:
    """Events of a few keys, shuffled, some of them again in a later batch."""
    events = []
    for at in range(1, draw.randint(16, 28)):
        amount = draw.choice([None, -1, 5, 20, 20, 70])
        gone = draw.random() < 0.25
        # An event that deletes need not fit the table's columns.
        amount = draw.choice([amount, 1 << 40]) if gone else amount
        events.append(Event(draw.randint(1, 4), at, amount, draw.choice(["", "a", "b", "b"]), gone))
    events += [Event(None, 3, 5, "a", False), Event(2, None, -5, "a", False), Event(1, None, 5, "b", False)]
    draw.shuffle(events)
    events += draw.sample([event for event in events if event.id and event.at], 5)
    cut = draw.randint(8, len(events) - 8)
    return [events[:cut], events[cut:]]


def _counted(rows: Any) -> Counter[str]:
    found = rows("SELECT operationMetrics FROM (DESCRIBE HISTORY t LIMIT 1)")[0][0]
    return Counter({k: int(v) for k, v in found.items() if "Expectations" in k or k.startswith("numViolations")})


@pytest.mark.random
@pytest.mark.parametrize("history", [False, True], ids=["scd1", "scd2"])
def test_random_events_and_a_model(spark, rows, database, tmp_path, history):
    for example in range(EXAMPLES):
        draw = random.Random(f"{SEED} {history} {example}")
        layout = draw.choice(sorted(LAYOUTS))
        said = f"{layout}; seed {SEED}, example {example}"
        # An empty text is stored as null in a partition column.
        stored = (lambda event: event._replace(p=event.p or None)) if "partitions" in layout else (lambda event: event)
        clauses = ", ".join(
            f"CONSTRAINT {name} EXPECT ({condition})" + ("" if action is None else f" ON VIOLATION {action}")
            for name, (condition, action, _) in EXPECTED.items()
        )
        for table in ("t", "bad"):
            spark.sql(f"DROP TABLE IF EXISTS {table}")
        spark.sql(QUARANTINE)
        if history:
            spark.sql("ALTER TABLE bad ADD COLUMNS (__START_AT INT, __END_AT INT)")
        more = ", __START_AT INT, __END_AT INT" if history else ""
        spark.sql(
            f"CREATE TABLE t (id INT, at INT, amount INT, p STRING{more}, {clauses}) USING delta {LAYOUTS[layout]}"
        )
        options = {**OPTIONS, "storedAs": "scd2"} if history else OPTIONS
        write = _Writer(spark, tmp_path / str(example), options)
        model = Model(history)
        for number, events in enumerate(_batches(draw)):
            model.batch([stored(event) for event in events])
            write(events, streams=number % 2 == history)
            assert Counter(rows("SELECT * FROM t")) == Counter(model.rows()), said
            start = ", __START_AT" if history else ""
            bad = rows(f"SELECT id, at, amount, p{start}, quarantine_reason, quarantine_source.operation FROM bad")
            assert Counter((*row[:-2], tuple(row[-2]), row[-1]) for row in bad) == model.bad, said
            if sum(model.counts.values()):
                counts = _counted(rows)
                if history:  # Rows that end elsewhere now are judged again by what keeps them.
                    for name in ("numViolations.usual", "numRowsKeptAgainstExpectations"):
                        del counts[name], model.counts[name]
                assert +counts == +model.counts, said
        assert model.bad, said


class _Writer:
    """Writes events as they are, or as the next batch of a stream."""

    def __init__(self, spark: Any, folder: Path, options: dict[str, str]) -> None:
        self.spark, self.folder, self.options = spark, folder, options

    def __call__(self, events: list[Event], *, streams: bool) -> None:
        frame = self.spark.createDataFrame([tuple(event) for event in events], COLUMNS).coalesce(1)
        if not streams:
            frame.write.format("delta").mode("append").options(**self.options).saveAsTable("t")
            return
        source = str(self.folder / "source")
        frame.write.format("delta").mode("append").save(source)
        query = self.spark.readStream.format("delta").load(source).writeStream.format("delta").options(**self.options)
        query = query.option("checkpointLocation", str(self.folder / "point")).trigger(availableNow=True)
        query.toTable("t").awaitTermination()


def _upsert(spark: Any, rows: list[tuple[Any, ...]], columns: str, **options: str) -> None:
    frame = spark.createDataFrame(rows, columns).coalesce(1)
    frame.write.format("delta").mode("append").options(idCols="id", sequenceBy="at", **options).saveAsTable("t")


@pytest.fixture
def positive(spark, database):
    spark.sql(
        "CREATE TABLE t (id INT, at INT, amount INT, p STRING DEFAULT 'x', twice INT GENERATED ALWAYS AS (amount * 2), "
        "CONSTRAINT ok EXPECT (twice > 0) ON VIOLATION DROP ROW) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )


def test_what_an_event_alone_does_not_say(spark, rows, positive, fails):
    _upsert(spark, [(1, 1, 10), (1, 2, -1)], "id INT, at INT, amount INT")
    assert rows("SELECT * FROM t") == [(1, 1, 10, "x", 20)]
    with fails("HEADWATER_INVALID_EXPECTATION", "twice", "do not have it"):
        _upsert(spark, [(1, 3)], "id INT, at INT")
    with fails("HEADWATER_INVALID_EXPECTATION", "amount", "ignoreNullUpdates"):
        spark.sql("ALTER TABLE t DROP CONSTRAINT ok")
        spark.sql("ALTER TABLE t ADD CONSTRAINT ok EXPECT (amount > 0) ON VIOLATION DROP ROW")
        _upsert(spark, [(1, 3, 7)], "id INT, at INT, amount INT", ignoreNullUpdates="true")
    assert rows("SELECT * FROM t") == [(1, 1, 10, "x", 20)]
    # Only what turns rows away must be known.
    spark.sql("ALTER TABLE t DROP CONSTRAINT ok")
    spark.sql("ALTER TABLE t ADD CONSTRAINT kept EXPECT (twice > 0)")
    spark.sql("ALTER TABLE t ADD CONSTRAINT never EXPECT (amount < 100) ON VIOLATION FAIL UPDATE")
    spark.sql("ALTER TABLE t ADD CONSTRAINT known EXPECT (id > 0) ON VIOLATION DROP ROW")
    _upsert(spark, [(1, 3, None), (-1, 3, "y")], "id INT, at INT, p STRING", ignoreNullUpdates="true")
    assert rows("SELECT * FROM t") == [(1, 3, 10, "x", 20)]
    assert _counted(rows) == Counter({"numRowsDroppedByExpectations": 1, "numViolations.known": 1})


def test_fail_update_precedes_and_values_must_fit(spark, rows, positive, fails):
    spark.sql("ALTER TABLE t ADD CONSTRAINT never EXPECT (at < 100) ON VIOLATION FAIL UPDATE")
    with fails("HEADWATER_EXPECTATION_VIOLATED", "never"):
        _upsert(spark, [(1, 1, 10), (1, 200, -10)], "id INT, at INT, amount INT")
    with fails("CAST_OVERFLOW_IN_TABLE_INSERT"):
        _upsert(spark, [(1, 1, 10), (1, 2, 1 << 40)], "id INT, at INT, amount BIGINT")
    assert rows("SELECT * FROM t") == []


@pytest.mark.parametrize("history", [False, True], ids=["scd1", "scd2"])
def test_new_columns_and_new_tables(spark, rows, database, history):
    options = {"storedAs": "scd2"} if history else {}
    spark.sql(QUARANTINE.replace("p STRING, ", "__START_AT INT, __END_AT INT, " if history else ""))
    expect = '{"condition": "amount > 0", "onViolation": "QUARANTINE", "into": ["spark_catalog", "%s", "bad"]}'
    events = [(1, 1, 10), (1, 2, -1), (2, 1, -1)]
    options["headwater.expect.ok"] = expect % database
    _upsert(spark, events, "id INT, at INT, amount INT", **options)
    assert rows("SELECT id, amount FROM t") == [(1, 10)]
    assert _counted(rows)["numRowsQuarantinedByExpectations"] == 2
    del options["headwater.expect.ok"]
    _upsert(
        spark, [(2, 2, 20, "a"), (2, 3, -2, "b")], "id INT, at INT, amount INT, p STRING", mergeSchema="true", **options
    )
    assert sorted(rows("SELECT id, amount, p FROM t")) == [(1, 10, None), (2, 20, "a")]
    assert sorted(rows("SELECT id, at, p, quarantine_source.operation FROM bad")) == [
        (1, 2, None, "CREATE TABLE AS SELECT"),
        (2, 1, None, "CREATE TABLE AS SELECT"),
        (2, 3, "b", "MERGE"),
    ]


def test_events_computed_from_the_table(spark, rows, positive):
    """The verdict and what is written come from the same rows, though each reading of these gives others."""
    _upsert(spark, [(i, 1, 1) for i in range(100)], "id INT, at INT, amount INT")
    read = "SELECT id, at + 1 AS at, IF(rand() < 0.5, -1, 2) AS amount FROM t"
    spark.sql(read).write.format("delta").mode("append").options(idCols="id", sequenceBy="at").saveAsTable("t")
    found = Counter(row[0] for row in rows("SELECT amount FROM t"))
    assert set(found) == {1, 2}
    assert _counted(rows)["numRowsDroppedByExpectations"] == found[1]


@pytest.mark.parametrize("has_others", [False, True], ids=["the first", "another"])
def test_an_expectation_that_came_meanwhile(spark, rows, positive, tmp_path, has_others):
    """Events are judged by what the table expects when they are committed."""
    if not has_others:
        spark.sql("ALTER TABLE t DROP CONSTRAINT ok")
    register(spark, tmp_path, only=77)

    def upsert(_: str) -> None:
        frame = spark.createDataFrame([(1, 1, 77), (1, 2, 500)], "id INT, at INT, amount INT").coalesce(1)
        frame = frame.selectExpr("id", "at", "gate(amount) AS amount")
        frame.write.format("delta").mode("append").options(idCols="id", sequenceBy="at").saveAsTable("t")

    added = "ALTER TABLE t ADD CONSTRAINT low EXPECT (amount < 100) ON VIOLATION DROP ROW"
    Gate(upsert, tmp_path).lose("", lambda: spark.sql(added))
    assert rows("SELECT id, at, amount FROM t") == [(1, 1, 77)]
    assert _counted(rows)["numViolations.low"] == 1


@pytest.mark.parametrize("action", ["DROP ROW", "QUARANTINE INTO bad"])
def test_a_stored_row_that_violates_ends(spark, rows, database, action):
    """Rows of before the expectation are not turned away as a newer event ends them: both would be current."""
    spark.sql(QUARANTINE.replace("p STRING, ", "__START_AT INT, __END_AT INT, "))
    columns = "id INT, at INT, amount INT"
    _upsert(spark, [(1, 1, -5), (1, 3, -7)], columns, storedAs="scd2")
    spark.sql(f"ALTER TABLE t ADD CONSTRAINT ok EXPECT (amount > 0 AND __START_AT < 9) ON VIOLATION {action}")
    _upsert(spark, [(1, 2, 5), (1, 4, 6), (1, 9, 7)], columns, storedAs="scd2")
    assert sorted(rows("SELECT amount, __START_AT, __END_AT FROM t")) == [
        (-7, 3, 4),
        (-5, 1, 2),
        (5, 2, 3),
        (6, 4, None),
    ]
    assert rows("SELECT amount, __START_AT FROM bad") == ([] if action == "DROP ROW" else [(7, 9)])


def test_events_without_a_key_or_a_sequence(spark, rows, positive, fails):
    with fails("HEADWATER_UPSERT_NULL_KEY"):
        _upsert(spark, [(None, 1, 10)], "id INT, at INT, amount INT")
    with fails("HEADWATER_UPSERT_NULL_SEQUENCE"):
        _upsert(spark, [(1, None, 10)], "id INT, at INT, amount INT")
    _upsert(spark, [(None, 1, -10), (1, None, -10), (1, 1, 10)], "id INT, at INT, amount INT")
    assert rows("SELECT id, at, amount FROM t") == [(1, 1, 10)]
