"""Both versions write to the same tables at the same time.

Each is a process that runs ``write`` with its number, 0 or 1; ``check`` knows what both must have left. A statement
that loses a race with a conflict is run again, as its user would.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from upgrades.story import EVENT, UPSERT, At

#: How often each side writes.
TIMES = 12


@dataclass(frozen=True)
class Pair:
    """One kind of work of both sides."""

    name: str
    title: str
    prepare: Callable[[At], None]
    write: Callable[[At, int], None]
    check: Callable[[At], None]


def _insist(work: Callable[[], object]) -> None:
    for _ in range(50):
        try:
            work()
            return
        except Exception as error:
            if "CONCURRENT" not in str(error) and "CONFLICT" not in str(error):
                raise
    raise AssertionError("50 conflicts")


def _prepare_rows(at: At) -> None:
    at.sql(
        "CREATE TABLE delta.`{at}/t` (who INT, n INT) USING delta TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true', 'delta.checkpointInterval' = '5')"
    )
    at.sql("INSERT INTO delta.`{at}/t` SELECT /*+ COALESCE(1) */ * FROM VALUES (-1, 0), (-2, 0), (-3, 0)")


def _write_rows(at: At, side: int) -> None:
    def insist(text: str, **values: int) -> None:
        _insist(partial(at.sql, text, **values))

    for i in range(TIMES):
        at.sql("INSERT INTO delta.`{at}/t` VALUES ({side}, {i})", side=side, i=i)
        insist("UPDATE delta.`{at}/t` SET n = n + 1 WHERE who = -3")
        insist("UPDATE delta.`{at}/t` SET n = n + 1 WHERE who = {own}", own=-1 - side)
        insist("DELETE FROM delta.`{at}/t` WHERE who = {side} AND n = {i} - 1 AND n % 2 = 0", side=side, i=i)
        if i % 4 == side:
            insist("OPTIMIZE delta.`{at}/t`")


def _check_rows(at: At) -> None:
    left = [(side, i) for side in (0, 1) for i in range(TIMES) if i % 2 or i == TIMES - 1]
    expected = sorted([(-3, 2 * TIMES), (-2, TIMES), (-1, TIMES), *left])
    at.must("SELECT who, n FROM delta.`{at}/t` ORDER BY who, n", expected)
    at.must("SELECT count(*) - count(DISTINCT _metadata.row_id) FROM delta.`{at}/t`", [(0,)])


def _prepare_events(at: At) -> None:
    _send(at, [(0, -1, "first", False)])


def _send(at: At, rows: list[tuple[int, int, str, bool]]) -> None:
    frame = at.spark.createDataFrame(rows, EVENT).coalesce(1)
    frame.write.format("delta").mode("append").options(**UPSERT).save(f"{at.folder}/t")


def _event(key: int, at: int) -> tuple[int, int, str, bool]:
    return key, at, f"v{at}", (key + at) % 3 == 0


def _write_events(at: At, side: int) -> None:
    """Side 0 sends the later half of the events first."""
    numbers = range(TIMES) if side else reversed(range(TIMES))
    for i in numbers:
        _insist(partial(_send, at, [_event(key, 2 * i + side) for key in range(4)]))


def _check_events(at: At) -> None:
    newest = [_event(key, 2 * TIMES - 1) for key in range(4)]
    at.must("SELECT k, at, v FROM delta.`{at}/t` ORDER BY k", [row[:3] for row in newest if not row[3]])


def _prepare_transfers(at: At) -> None:
    for table in "ab":
        at.sql(
            "CREATE TABLE delta.`{at}/{which}` (id INT, n INT) USING delta "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
            which=table,
        )
        at.sql("INSERT INTO delta.`{at}/{which}` VALUES (0, 0), (1, 0)", which=table)


def _transfer(at: At, side: int) -> None:
    try:
        at.sql("BEGIN TRANSACTION")
        at.sql("UPDATE delta.`{at}/a` SET n = n - 1 WHERE id = {side}", side=side)
        at.sql("UPDATE delta.`{at}/b` SET n = n + 1 WHERE id = {side}", side=side)
        at.sql("COMMIT")
    except Exception:
        with suppress(Exception):  # a COMMIT that lost has ended the transaction
            at.sql("ROLLBACK")
        raise


def _write_transfers(at: At, side: int) -> None:
    for _ in range(TIMES):
        _insist(partial(_transfer, at, side))
        at.sql("BEGIN TRANSACTION")
        at.must("SELECT (SELECT sum(n) FROM delta.`{at}/a`) + (SELECT sum(n) FROM delta.`{at}/b`)", [(0,)])
        at.sql("COMMIT")


def _check_transfers(at: At) -> None:
    at.must("SELECT id, n FROM delta.`{at}/a` ORDER BY id", [(0, -TIMES), (1, -TIMES)])
    at.must("SELECT id, n FROM delta.`{at}/b` ORDER BY id", [(0, TIMES), (1, TIMES)])


PAIRS = (
    Pair("rows", "INSERT, UPDATE, DELETE and OPTIMIZE of the same files", _prepare_rows, _write_rows, _check_rows),
    Pair("events", "upserts and deletions of the same keys", _prepare_events, _write_events, _check_events),
    Pair("transfers", "transactions over the same two tables", _prepare_transfers, _write_transfers, _check_transfers),
)

BY_NAME = {pair.name: pair for pair in PAIRS}
