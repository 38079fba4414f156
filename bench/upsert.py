"""The cases of upserts: ours by ``idCols``, the peer's by the MERGE that its users write in ``foreachBatch``.

Both sides begin each round with the same files, as those of :mod:`bench.dml`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from statistics import median

from bench.cases import COLUMNS, Against, Bench, Case
from bench.dml import copied, large, source_of
from bench.sparks import PEER

_KEYS = 100_000
_FIRST = "first ten"
_BATCHES = 1000
_COMPARED = 10
_WARM_UP_BATCHES = 60

_MERGE = """MERGE INTO delta.`{path}` AS t USING parquet.`{source}` AS s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
#: The peer remembers no deletions: of its users, most do not either.
_MERGE_OF_NEWEST = """MERGE INTO delta.`{path}` AS t USING (
  SELECT * EXCEPT (n) FROM (
    SELECT *, row_number() OVER (PARTITION BY id ORDER BY amount DESC) AS n FROM parquet.`{source}`
  ) WHERE n = 1
) AS s ON t.id = s.id
WHEN MATCHED AND s.gone AND s.amount >= t.amount THEN DELETE
WHEN MATCHED AND s.amount >= t.amount THEN UPDATE SET *
WHEN NOT MATCHED AND NOT s.gone THEN INSERT *"""
#: The recipe of the format's documentation, for events that come in order, one of each key: a row that ends the current
#: one, and another that is inserted as it matches nothing.
_MERGE_OF_HISTORY = """MERGE INTO delta.`{path}` AS t USING (
  SELECT id AS ends, * FROM parquet.`{source}`
  UNION ALL
  SELECT NULL AS ends, s.* FROM parquet.`{source}` AS s JOIN delta.`{path}` AS known ON s.id = known.id
  WHERE known.__END_AT IS NULL AND s.amount > known.__START_AT AND NOT s.gone
) AS s ON t.id = s.ends AND t.__END_AT IS NULL
WHEN MATCHED AND s.amount > t.__START_AT THEN UPDATE SET __END_AT = s.amount
WHEN NOT MATCHED AND NOT s.gone THEN INSERT (id, device, name, amount, day, taken, flag, price, __START_AT, __END_AT)
  VALUES (s.id, s.device, s.name, s.amount, s.day, s.taken, s.flag, s.price, s.amount, NULL)"""
_SEQUENCED = {"sequenceBy": "amount", "deleteWhen": "gone", "exceptColumns": "gone"}


def _events(bench: Bench) -> str:
    """Rows of every file, and one new row for ten known ones."""
    step = bench.rows * 11 // 10 // _KEYS
    return f"SELECT {COLUMNS} FROM (SELECT id * {step} AS id FROM range(0, {_KEYS}, 1, 2))"


def _newer_events(bench: Bench) -> str:
    """The same, newer than the table's; one of twenty deletes."""
    return f"SELECT * EXCEPT (amount), amount + 1 AS amount, id % 20 = 0 AS gone FROM ({_events(bench)})"


def _deleting_events(bench: Bench) -> str:
    """Those, and one of ten comes again, older."""
    older = f"SELECT * EXCEPT (amount), amount, false AS gone FROM ({_events(bench)}) WHERE id % 10 = 1"
    return f"{_newer_events(bench)} UNION ALL {older}"


def _history(bench: Bench) -> str:
    """What follows CREATE TABLE of the large table, each row of which is the current one of its key."""
    properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    bounds = "amount AS __START_AT, CAST(NULL AS DOUBLE) AS __END_AT"
    return f"{properties} AS SELECT *, {bounds} FROM (SELECT {COLUMNS} FROM range(0, {bench.rows}, 1, 50))"


def _upserted(
    name: str,
    title: str,
    ratio: float,
    events: Callable[[Bench], str],
    merge: str,
    options: dict[str, str],
    table: tuple[str, Callable[[Bench], str]] = ("vectors", large(vectors=True)),
) -> Case:
    def timed(bench: Bench, side: str, number: int) -> float:
        source = source_of(bench, name, events(bench))
        copy = copied(bench, table[0], table[1](bench), name, side, number)
        try:
            if side == PEER:
                return bench.spark(side).run(merge.format(path=copy, source=source))
            given = {"idCols": "id", **options}
            return float(
                bench.spark(side).call("upsert", source=str(source), table=str(copy), options=given)["seconds"]
            )
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    return Case(name, f"upsert of {_KEYS:,} keys{title}", (Against(PEER, ratio=ratio),), timed, 5, warm_up=6)


def _batches(bench: Bench, side: str, name: str, batches: int) -> list[float]:
    table, checkpoint = (bench.path(f"{name}-{kind}", side) for kind in ("table", "checkpoint"))
    for folder in (table, checkpoint):
        shutil.rmtree(folder, ignore_errors=True)
    answer = bench.spark(side).call("batches_upserted", table=str(table), checkpoint=str(checkpoint), batches=batches)
    return [float(seconds) for seconds in answer["seconds"]]


def _stream() -> Case:
    known: dict[tuple[str, int], list[float]] = {}

    def prepare(bench: Bench, side: str) -> None:
        if side != _FIRST:
            _batches(bench, side, "upsert-stream-warm-up", _WARM_UP_BATCHES)

    def timed(bench: Bench, side: str, number: int) -> float:
        """Seconds of a micro-batch of one stream: the median of the last, or for the other side of the first."""
        run = bench.spark(side).kind, number
        if run not in known:
            known[run] = _batches(bench, side, "upsert-stream", _BATCHES)
        return median(known[run][:_COMPARED] if side == _FIRST else known[run][-_COMPARED:])

    title = f"a micro-batch upserted by a stream, the last of {_BATCHES:,}"
    return Case("upsert-stream", title, (Against(_FIRST, ratio=1.0),), timed, 1, prepare, warm_up=0)


def cases() -> Iterator[Case]:
    """The cases."""
    yield _upserted("upsert", "", 0.4, _events, _MERGE, {})
    sequenced = ", with sequence and deletions"
    yield _upserted("upsert-sequence", sequenced, 0.6, _deleting_events, _MERGE_OF_NEWEST, _SEQUENCED)
    options = {**_SEQUENCED, "storedAs": "scd2"}
    history = ("history", _history)
    yield _upserted("upsert-history", ", with history", 1.0, _newer_events, _MERGE_OF_HISTORY, options, history)
    yield _stream()
