"""Upserts by sequence: events in any order, repeated, in any batches, give the table that the ordered ones give.

A model in plain Python judges random events. The races and the crash that could break the promise are made on purpose.
``HEADWATER_TEST_EXAMPLES`` asks for another number of examples, drawn anew.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as drawing
from hypothesis import strategies as st

from support.drawing import STEADY
from support.gates import Gate, register

pytestmark = pytest.mark.spark
EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "2"))
drawn = drawing(STEADY, max_examples=EXAMPLES, derandomize="HEADWATER_TEST_EXAMPLES" not in os.environ, print_blob=True)
_numbers = itertools.count()
COLUMNS = "id INT, at INT, v STRING, gone BOOLEAN"
OPTIONS = {"idCols": "id", "sequenceBy": "at", "deleteWhen": "gone", "exceptColumns": "gone"}


class Event(NamedTuple):
    id: int
    at: int
    v: str | None
    gone: bool


def ordered(events: Iterable[Event], *, ignores_nulls: bool = False) -> list[tuple[int, int, str | None]]:
    """The model: the events one by one, in the order of their sequences."""
    table: dict[int, tuple[int, str | None]] = {}
    for event in sorted(set(events), key=lambda event: event.at):
        if event.gone:
            table.pop(event.id, None)
        else:
            known = table.get(event.id, (0, None))[1] if ignores_nulls and event.v is None else None
            table[event.id] = (event.at, known if event.v is None else event.v)
    return sorted((id, at, v) for id, (at, v) in table.items())


def write(spark: Any, path: Path, events: Sequence[Event], **options: Any) -> None:
    frame = spark.createDataFrame([tuple(event) for event in events], COLUMNS).coalesce(1)
    frame.write.format("delta").mode("append").options(**{**OPTIONS, **options}).save(str(path))


def rows(spark: Any, path: Path) -> list[Any]:
    return sorted(map(tuple, spark.read.format("delta").load(str(path)).collect()))


def batches(events: Sequence[Event], ends: Sequence[int]) -> list[Sequence[Event]]:
    cuts = sorted({0, len(events), *(end % (len(events) + 1) for end in ends)})
    return [events[start:end] for start, end in itertools.pairwise(cuts)]


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[Event], list[int]]:
    """Events of a few keys, shuffled, some of them several times, and where the batches end."""
    count = draw(st.integers(4, 24))
    keys = draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    gone = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    # A sequence is one event's alone.
    events = [Event(id, at, None if g else f"v{at}", g) for at, (id, g) in enumerate(zip(keys, gone, strict=True), 1)]
    repeated = draw(st.lists(st.sampled_from(events), max_size=8))
    return draw(st.permutations([*events, *repeated])), draw(st.lists(st.integers(0, 40), min_size=2, max_size=4))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("vectors", [False, True], ids=["copy_on_write", "deletion_vectors"])
def test_any_order_gives_the_table_of_the_ordered_events(spark, tmp_path, vectors):
    @drawn
    @given(stories())
    def holds(story: tuple[list[Event], list[int]]) -> None:
        events, ends = story
        path = tmp_path / f"t{next(_numbers)}"
        if vectors:
            property = "'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true'"
            spark.sql(f"CREATE TABLE delta.`{path}` (id INT, at INT, v STRING) USING delta TBLPROPERTIES ({property})")
        for batch in batches(events, ends):
            write(spark, path, batch)
        assert rows(spark, path) == ordered(events)

    holds()


def test_nulls_that_are_ignored_leave_what_the_ordered_events_gave(spark, tmp_path):
    """Wherever the batches end, within a batch too: where random ones end, ``test_upsert_cuts.py`` judges."""
    first = [Event(1, 1, "a", False), Event(2, 3, "x", False), Event(1, 2, None, False)]
    second = [Event(1, 4, "b", False), Event(2, 5, None, True), Event(1, 6, None, False), Event(1, 3, "late", False)]
    third = [Event(2, 7, None, False), Event(2, 4, "late", False), Event(1, 8, None, True), Event(1, 9, None, False)]
    for batch in (first, second):
        write(spark, tmp_path / "t", batch, ignoreNullUpdates=True)
    assert rows(spark, tmp_path / "t") == [(1, 6, "b")]
    write(spark, tmp_path / "t", third, ignoreNullUpdates=True)
    events = itertools.chain(first, second, third)
    assert rows(spark, tmp_path / "t") == ordered(events, ignores_nulls=True) == [(1, 9, None), (2, 7, None)]


@pytest.fixture
def gate(spark: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "gate"
    folder.mkdir()
    register(spark, folder)
    return folder


def late(spark: Any, path: Path, **options: Any) -> Any:
    """A writer of key 1 at 5 whose rows wait at the gate."""
    frame = spark.createDataFrame([(1, 5, "late")], "id INT, at INT, v STRING").coalesce(1)
    frame = frame.selectExpr("id", "gate(at) AS at", "v")
    given = {"idCols": "id", "sequenceBy": "at", **options}
    return lambda _: frame.write.format("delta").mode("append").options(**given).save(str(path))


@pytest.mark.parametrize("knows", [False, True], ids=["first_deletion", "later_deletion"])
def test_a_writer_that_did_not_see_a_deletion_loses(spark, tmp_path, gate, knows):
    """The key is deleted after the writer has read which ones were, and no row of the table shows it."""
    path = tmp_path / "t"
    register(spark, gate, only=77)
    write(spark, path, [Event(2, 77, "b", False), *([Event(3, 1, None, True)] if knows else [])])
    # The stored row's sequence is computed while events and table are joined.
    events = [Event(1, 5, "late", False), Event(2, 78, "c", False)]
    deletion = [Event(1, 6, None, True)]
    Gate(lambda _: write(spark, path, events, sequenceBy="gate(at)"), gate).lose(
        "", lambda: write(spark, path, deletion, sequenceBy="at")
    )
    assert rows(spark, path) == [(2, 78, "c")]


def test_a_deletion_finds_the_row_that_came_meanwhile(spark, tmp_path, gate):
    path = tmp_path / "t"
    write(spark, path, [Event(2, 1, "b", False)])
    frame = (
        spark.createDataFrame([(1, 6, "x", True)], COLUMNS).coalesce(1).selectExpr("id", "gate(at) AS at", "v", "gone")
    )
    deletion = frame.write.format("delta").mode("append").options(**OPTIONS)
    Gate(lambda _: deletion.save(str(path)), gate).lose("", lambda: write(spark, path, [Event(1, 5, "a", False)]))
    assert rows(spark, path) == [(2, 1, "b")]


def test_the_first_write_of_two_is_not_lost(spark, tmp_path, gate):
    """Both make the table: the one that is not the first upserts into it."""
    path = tmp_path / "t"
    Gate(late(spark, path), gate).lose(
        "", lambda: write(spark, path, [Event(1, 4, "a", False), Event(2, 1, "b", False)])
    )
    assert rows(spark, path) == [(1, 5, "late"), (2, 1, "b")]


@pytest.mark.parametrize("writers", [2, pytest.param(6, marks=pytest.mark.soak)])
def test_many_writers_that_delete(spark, tmp_path, writers):
    """None fails, and each deletion is remembered."""
    path = tmp_path / "t"
    write(spark, path, [Event(0, 1, "x", False)])

    def delete_and_insert(writer: int) -> None:
        write(spark, path, [Event(writer, 6, None, True), Event(writer + 10, 6, "new", False)])
        write(spark, path, [Event(writer, 5, "late", False)])

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(delete_and_insert, range(writers)))
    assert rows(spark, path) == [(writer + 10, 6, "new") for writer in range(writers)]


@pytest.mark.parametrize("retention", [None, "interval 0 seconds"], ids=["", "transactions_expire"])
def test_a_batch_that_failed_deletes_nothing(spark, tmp_path, retention):
    """Its deletions are in the companion and its rows are not in the table. What it was to delete stays and comes as if
    there had been no such batch; repeated, it deletes; and what is in the table stays remembered."""
    path = tmp_path / "t"
    write(spark, path, [Event(1, 1, "a", False), Event(2, 1, "b", False), Event(4, 9, None, True)])
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT short CHECK (length(v) < 5)")
    if retention is not None:
        property = f"'delta.setTransactionRetentionDuration' = '{retention}'"
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({property}, 'delta.checkpointInterval' = '1')")
    batch = [Event(1, 6, None, True), Event(3, 6, None, True), Event(2, 2, "too long", False)]
    with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        write(spark, path, batch)
    assert len(list((path / "_headwater_upsert").glob("*/_delta_log/*.json"))) > 1
    write(spark, path, [Event(1, 5, "new", False), Event(3, 5, "new", False), Event(4, 5, "late", False)])
    assert rows(spark, path) == [(1, 5, "new"), (2, 1, "b"), (3, 5, "new")]
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT short")
    write(spark, path, batch)
    write(spark, path, [Event(id, 5, "late", False) for id in (1, 3, 4)])
    assert rows(spark, path) == [(2, 2, "too long")]
