"""The chapters of the story: what one version begins with a feature, and either version can continue.

A chapter has a beginning, a step that may follow any number of times, and a check of what must be there after so many
steps. So the versions can take the steps in any order, and a check does not ask which version took them. The truth is
computed here, never read from a table.

Chapters run inside the process of a version: they use no name of Headwater's but those that users have.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class At:
    """Where a chapter is told: the session, what its tables' names begin with, and a folder of its own."""

    spark: Any
    name: str
    folder: str

    def sql(self, text: str, **values: Any) -> Rows:
        """Run a statement: ``{t}`` is the table, ``{at}`` the folder."""
        found = self.spark.sql(text.format(t=self.name, at=self.folder, **values)).collect()
        return [tuple(row) for row in found]

    def must(self, text: str, expected: Rows, **values: Any) -> None:
        """Compare a query's rows with the truth.

        :raises AssertionError: they differ.
        """
        same(text, self.sql(text, **values), expected)

    def refused(self, text: str, condition: str) -> None:
        """Run a statement that must end with a condition."""
        try:
            self.sql(text)
        except Exception as error:
            if condition in str(error):
                return
            raise
        raise AssertionError(f"{text} was not refused")


def same(what: str, found: Any, expected: Any) -> None:
    """Raise an AssertionError that shows both if they differ."""
    if found != expected:
        raise AssertionError(f"{what} has {str(found)[:300]}, not {str(expected)[:300]}")


@dataclass(frozen=True)
class Chapter:
    """One feature's part of the story; ``step`` and ``check`` get the number of steps before."""

    name: str
    title: str
    begin: Callable[[At], None]
    step: Callable[[At, int], None]
    check: Callable[[At, int], None]


# -- Rows under each kind of table -------------------------------------------------------------------------------------


def _changed_rows(
    name: str,
    title: str,
    properties: str = "",
    clause: str = "",
    after: Sequence[str] = (),
    also: Callable[[At, int], None] | None = None,
    began: Callable[[At], None] | None = None,
) -> Chapter:
    """INSERT, UPDATE, MERGE and DELETE in a table of a kind.

    :param after: statements that follow in each step and change no row.
    :param also: checks more.
    :param began: follows the beginning.
    """

    def begin(at: At) -> None:
        given = f"TBLPROPERTIES ({properties})" if properties else ""
        at.sql(f"CREATE TABLE {{t}} (id INT, v STRING) USING delta {clause} {given}")
        at.sql("INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
        at.sql("UPDATE {t} SET v = 'B' WHERE id = 2")
        at.sql("DELETE FROM {t} WHERE id = 4")
        if began is not None:
            began(at)

    def step(at: At, n: int) -> None:
        at.sql("INSERT INTO {t} VALUES ({id}, 'new')", id=100 + n)
        at.sql("UPDATE {t} SET v = concat(v, '!') WHERE id = 1")
        at.sql(
            "MERGE INTO {t} AS t USING (SELECT 2 AS id, 'm{n}' AS v UNION ALL SELECT {id}, 'm') AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            n=n,
            id=200 + n,
        )
        at.sql("DELETE FROM {t} WHERE id = {id}", id=100 + n)
        for statement in after:
            at.sql(statement)

    def check(at: At, n: int) -> None:
        rows: Rows = [(1, "a" + n * "!"), (2, f"m{n - 1}" if n else "B"), (3, "c")]
        rows += [(200 + i, "m") for i in range(n)]
        at.must("SELECT id, v FROM {t} ORDER BY id", rows)
        at.must("SELECT count(*), min(id), max(id) FROM {t}", [(len(rows), 1, rows[-1][0])])
        at.must("SELECT count(*) FROM {t} VERSION AS OF 1", [(4,)])
        if also is not None:
            also(at, n)

    return Chapter(name, title, begin, step, check)


def _remember_row_ids(at: At) -> None:
    (Path(at.folder) / "row-ids.json").write_text(json.dumps(_row_ids(at)))


def _row_ids(at: At) -> list[list[Any]]:
    found = at.sql("SELECT id, _metadata.row_id FROM {t} WHERE id < 100 ORDER BY id")
    return [list(row) for row in found]


def _same_row_ids(at: At, n: int) -> None:
    same("row ids", _row_ids(at), json.loads((Path(at.folder) / "row-ids.json").read_text()))
    at.must("SELECT count(*) - count(DISTINCT _metadata.row_id) FROM {t}", [(0,)])


def _changes(at: At, n: int) -> None:
    found = at.sql("SELECT _change_type, count(*) FROM table_changes('{t}', 1) GROUP BY 1 ORDER BY 1")
    updates = 1 + 2 * n
    expected = [("delete", 1 + n), ("insert", 4 + 2 * n)]
    same("table_changes", found, [*expected, ("update_postimage", updates), ("update_preimage", updates)])


def _entry(at: At, n: int) -> None:
    """The metastore's own entry has the table's columns and property."""
    catalog = at.spark._jsparkSession.sharedState().externalCatalog()
    entry = catalog.getTable("default", at.name)
    same("columns of the entry", list(entry.schema().fieldNames()), ["id", "v"])
    mine = entry.properties().get("mine")
    same("property of the entry", mine.get() if mine.isDefined() else None, "kept")


def _manifest(at: At, n: int) -> None:
    location = at.sql("DESCRIBE DETAIL {t}")[0][4].removeprefix("file:")
    listed = (Path(location) / "_symlink_format_manifest" / "manifest").read_text().split()
    found = {Path(line.removeprefix("file:")).name for line in listed}
    live = {row[0].rpartition("/")[2] for row in at.sql("SELECT DISTINCT _metadata.file_path FROM {t}")}
    same("files of the manifest", found, live)


def _iceberg_rows(at: At, n: int) -> None:
    """The newest Iceberg metadata has as many rows as the table; it follows a commit."""
    location = Path(at.sql("DESCRIBE DETAIL {t}")[0][4].removeprefix("file:")) / "metadata"
    expected, found, deadline = str(3 + n), "none", time.monotonic() + 60
    while found != expected and time.monotonic() < deadline:
        newest = max(location.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]), default=None)
        if newest is not None:
            content = json.loads(newest.read_text())
            current = [s for s in content["snapshots"] if s["snapshot-id"] == content.get("current-snapshot-id")]
            found = current[0]["summary"].get("total-records", "none") if current else "none"
        time.sleep(0.2)
    same("rows in Iceberg's metadata", found, expected)


# -- Chapters of their own ---------------------------------------------------------------------------------------------


def _partitions() -> Chapter:
    odd = "ü/ %=:"

    def begin(at: At) -> None:
        at.sql("CREATE TABLE {t} (id INT, p STRING, d DATE) USING delta PARTITIONED BY (p, d)")
        at.sql("INSERT INTO {t} VALUES (1, 'ü/ %=:', DATE'2024-01-01'), (2, NULL, NULL), (3, 'x', DATE'1500-03-01')")

    def step(at: At, n: int) -> None:
        at.sql("INSERT INTO {t} VALUES ({id}, 'ü/ %=:', DATE'2024-01-01')", id=10 + n)
        at.sql("INSERT INTO {t} REPLACE WHERE p = 'x' SELECT {id}, 'x', DATE'1500-03-01'", id=30 + n)
        at.sql("UPDATE {t} SET p = 'y' WHERE p = 'ü/ %=:' AND id = {id}", id=10 + n)

    def check(at: At, n: int) -> None:
        rows: Rows = [(1, odd, "2024-01-01"), (2, None, None), *((10 + i, "y", "2024-01-01") for i in range(n))]
        rows.append((30 + n - 1 if n else 3, "x", "1500-03-01"))
        at.must("SELECT id, p, CAST(d AS STRING) FROM {t} ORDER BY id", rows)
        at.must("SELECT id FROM {t} WHERE p = 'ü/ %=:'", [(1,)])
        at.must("SELECT id FROM {t} WHERE p IS NULL", [(2,)])

    return Chapter("partitions", "partitions, with odd values and null; REPLACE WHERE", begin, step, check)


def _mapping(mode: str) -> Chapter:
    def begin(at: At) -> None:
        at.sql(
            f"CREATE TABLE {{t}} (id INT, v0 STRING) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"
        )
        at.sql("INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")

    def step(at: At, n: int) -> None:
        at.sql("ALTER TABLE {t} RENAME COLUMN v{n} TO v{m}", n=n, m=n + 1)
        at.sql("ALTER TABLE {t} ADD COLUMNS (gone INT)")
        at.sql("INSERT INTO {t} VALUES ({id}, 'c', 1)", id=10 + n)
        at.sql("ALTER TABLE {t} DROP COLUMN gone")
        at.sql("UPDATE {t} SET v{m} = concat(v{m}, '!') WHERE id = 1", m=n + 1)

    def check(at: At, n: int) -> None:
        rows: Rows = [(1, "a" + n * "!"), (2, "b"), *((10 + i, "c") for i in range(n))]
        at.must("SELECT id, v{n} FROM {t} ORDER BY id", rows, n=n)

    return Chapter(f"mapping-{mode}", f"column mapping by {mode}: columns renamed, added, dropped", begin, step, check)


def _computed() -> Chapter:
    def begin(at: At) -> None:
        at.sql(
            "CREATE TABLE {t} (id BIGINT GENERATED ALWAYS AS IDENTITY, n INT NOT NULL, d INT DEFAULT 7, "
            "g INT GENERATED ALWAYS AS (n + 1)) USING delta "
            "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        )
        at.sql("ALTER TABLE {t} ADD CONSTRAINT positive CHECK (n > 0)")
        at.sql("INSERT INTO {t} (n) VALUES (5)")

    def step(at: At, n: int) -> None:
        at.sql("INSERT INTO {t} (n) VALUES ({n})", n=10 + n)

    def check(at: At, n: int) -> None:
        at.must("SELECT n, d, g FROM {t} ORDER BY n", [(v, 7, v + 1) for v in (5, *range(10, 10 + n))])
        at.must("SELECT count(DISTINCT id) FROM {t}", [(1 + n,)])
        at.refused("INSERT INTO {t} (n) VALUES (-1)", "DELTA_VIOLATE_CONSTRAINT")
        at.refused("INSERT INTO {t} (n) VALUES (NULL)", "NOT_NULL")

    return Chapter("computed", "identity, default and generated columns, NOT NULL, CHECK", begin, step, check)


def _widening() -> Chapter:
    def begin(at: At) -> None:
        at.sql("CREATE TABLE {t} (id INT, v SMALLINT) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        at.sql("INSERT INTO {t} VALUES (1, 10)")
        at.sql("ALTER TABLE {t} ALTER COLUMN v TYPE INT")
        at.sql("INSERT INTO {t} VALUES (2, 70000)")

    def step(at: At, n: int) -> None:
        at.sql("ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT")
        at.sql("INSERT INTO {t} VALUES ({id}, 5000000000)", id=10 + n)

    def check(at: At, n: int) -> None:
        at.must(
            "SELECT id, v FROM {t} ORDER BY id", [(1, 10), (2, 70000), *((10 + i, 5_000_000_000) for i in range(n))]
        )
        at.must("SELECT id FROM {t} WHERE v < 100", [(1,)])

    return Chapter("widening", "columns of wider types", begin, step, check)


def _types() -> Chapter:
    values = (
        "named_struct('x', 1, 'y', array('p', NULL)), map('k', 1.5D), parse_json('{{\"a\": [1, 2]}}'), "
        "TIMESTAMP_NTZ'2024-01-02 03:04:05.000006', TIMESTAMP'1800-01-01 00:00:00', "
        "CAST('12345678901234567890.123456789012345678' AS DECIMAL(38, 18)), X'00FF', double('NaN')"
    )
    row = (
        '{"x":1,"y":["p",null]}',
        '{"k":1.5}',
        '{"a":[1,2]}',
        "2024-01-02 03:04:05.000006",
        "1800-01-01 00:00:00",
        "12345678901234567890.123456789012345678",
        "00FF",
        "NaN",
    )

    def begin(at: At) -> None:
        at.sql(
            "CREATE TABLE {t} (id INT, s STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, DOUBLE>, j VARIANT, "
            "n TIMESTAMP_NTZ, t TIMESTAMP, d DECIMAL(38, 18), b BINARY, f DOUBLE) USING delta"
        )
        at.sql(f"INSERT INTO {{t}} SELECT 0, {values}")

    def step(at: At, n: int) -> None:
        at.sql(f"INSERT INTO {{t}} SELECT {{id}}, {values}", id=n + 1)
        at.sql("UPDATE {t} SET s.x = 1 WHERE id = {id}", id=n)

    def check(at: At, n: int) -> None:
        at.must(
            "SELECT id, to_json(s), to_json(m), to_json(j), CAST(n AS STRING), CAST(t AS STRING), CAST(d AS STRING), "
            "hex(b), CAST(f AS STRING) FROM {t} ORDER BY id",
            [(i, *row) for i in range(n + 1)],
        )

    return Chapter(
        "types", "nested, variant, binary, decimal, timestamps with and without zone, NaN", begin, step, check
    )


# -- Upserts -----------------------------------------------------------------------------------------------------------

EVENT = "k INT, at INT, v STRING, gone BOOLEAN"
UPSERT = {"idCols": "k", "sequenceBy": "at", "deleteWhen": "gone", "exceptColumns": "gone"}


def _events(at: At, *rows: tuple[int, int, str, bool], **more: str) -> None:
    frame = at.spark.createDataFrame(list(rows), EVENT)
    frame.write.format("delta").mode("append").options(**UPSERT, **more).saveAsTable(at.name)


def _upserts() -> Chapter:
    def begin(at: At) -> None:
        _events(at, (1, 10, "one", False), (2, 10, "two", False))
        _events(at, (2, 20, "", True), (3, 30, "", True))

    def step(at: At, n: int) -> None:
        late = [(200 + i, 40, "late", False) for i in range(n)]
        _events(at, (200 + n, 10, "x", False), (2, 15, "late", False), (3, 29, "late", False), *late)
        _events(at, (200 + n, 50, "", True), (1, 5, "late", False), (100 + n, 1, "new", False))

    def check(at: At, n: int) -> None:
        at.must("SELECT k, at, v FROM {t} ORDER BY k", [(1, 10, "one"), *((100 + i, 1, "new") for i in range(n))])

    return Chapter("upserts", "upserts, late events of keys that were deleted", begin, step, check)


def _histories() -> Chapter:
    def begin(at: At) -> None:
        _events(at, (1, 10, "a", False), (1, 1000, "z", False), (2, 10, "b", False), storedAs="scd2")
        _events(at, (2, 100, "", True), storedAs="scd2")

    def step(at: At, n: int) -> None:
        _events(at, (1, 500 - n, "late", False), (2, 50 - n, "late", False), storedAs="scd2")

    def check(at: At, n: int) -> None:
        def history(first: int, between: list[int], last: int) -> list[tuple[int, int | None]]:
            starts = [first, *sorted(between)]
            return list(zip(starts, [*starts[1:], last], strict=True))

        of_one = [*history(10, [500 - i for i in range(n)], 1000), (1000, None)]
        of_two = history(10, [50 - i for i in range(n)], 100)
        expected = [*((1, *each) for each in of_one), *((2, *each) for each in of_two)]
        at.must("SELECT k, __START_AT, __END_AT FROM {t} ORDER BY k, __START_AT", expected)

    return Chapter("histories", "histories of keys, late events after a deletion", begin, step, check)


# -- Streams -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Query:
    """A query from one table to another, started in each step with the checkpoint that the last one left.

    :param source: the statement that creates the source.
    :param rows: what the query has written after so many steps; ``feed`` gives the source what a step adds.
    :param halfway: the beginning stops the query after its first micro-batches, and each step ends it.
    """

    source: str
    reading: dict[str, str] = field(default_factory=dict)
    writing: dict[str, str] = field(default_factory=dict)
    rows: Callable[[int], Rows] = lambda n: [(10 * j + i, "v") for j in range(n + 1) for i in range(3)]
    feed: Callable[[At, int], None] = lambda at, n: _three_files(at, n)
    halfway: bool = False
    columns: str = "*"

    def begin(self, at: At) -> None:
        at.sql(self.source)
        self.feed(at, 0)
        if not self.halfway:
            self._writer(at).trigger(availableNow=True).toTable(at.name).awaitTermination()
            return
        query = self._writer(at).trigger(processingTime="0 seconds").toTable(at.name)
        while query.isActive and (query.lastProgress is None or query.lastProgress["batchId"] < 1):
            time.sleep(0.01)
        query.stop()

    def step(self, at: At, n: int) -> None:
        self.feed(at, n + 1)
        for attempt in range(4):
            try:
                self._writer(at).trigger(availableNow=True).toTable(at.name).awaitTermination()
                return
            except Exception as error:  # with a schema log, the query ends on purpose at a changed definition
                if (
                    "schemaTrackingLocation" not in self.reading
                    or "METADATA_EVOLUTION" not in str(error)
                    or attempt > 2
                ):
                    raise

    def check(self, at: At, n: int) -> None:
        if not self.halfway or n:
            found = at.sql("SELECT {columns} FROM {t}", columns=self.columns)
            same("the stream's table", sorted(found, key=str), sorted(self.rows(n), key=str))

    def _writer(self, at: At) -> Any:
        options = {key: value.format(at=at.folder) for key, value in self.reading.items()}
        reader = at.spark.readStream.format("delta").option("maxFilesPerTrigger", 1).options(**options)
        frame = reader.table(f"{at.name}_from")
        if "withEventTimeOrder" in options:
            frame = frame.withWatermark("at", "1 second")
        elif "readChangeFeed" in options:
            frame = frame.select("id", "v", "_change_type")
        checkpoint = f"{at.folder}/checkpoint"
        return frame.writeStream.format("delta").options(**self.writing, checkpointLocation=checkpoint)


def _three_files(at: At, n: int) -> None:
    for i in range(3):
        at.sql("INSERT INTO {t}_from VALUES ({id}, 'v')", id=10 * n + i)


def _stream(name: str, title: str, query: _Query) -> Chapter:
    return Chapter(name, title, query.begin, query.step, query.check)


def _new_column(at: At, n: int) -> None:
    if n:
        at.sql("ALTER TABLE {t}_from ADD COLUMNS (c{n} INT)", n=n)
    nulls = n * ", NULL"
    at.sql(f"INSERT INTO {{t}}_from VALUES ({{id}}, 'v'{nulls})", id=n)


def _with_columns(n: int) -> Rows:
    return [(i, "v", *(None for _ in range(n))) for i in range(n + 1)]


def _feed_of_changes(at: At, n: int) -> None:
    at.sql("INSERT INTO {t}_from VALUES ({id}, 'v')", id=n)
    at.sql("UPDATE {t}_from SET v = 'w' WHERE id = {id}", id=n)


def _rows_of_changes(n: int) -> Rows:
    kinds = (("v", "insert"), ("v", "update_preimage"), ("w", "update_postimage"))
    return [(i, *kind) for i in range(n + 1) for kind in kinds]


def _feed_of_keys(at: At, n: int) -> None:
    at.sql("INSERT INTO {t}_from VALUES (1, {n}, 'v{n}', false), ({k}, 10, 'x', false)", n=n, k=100 + n)
    at.sql("INSERT INTO {t}_from VALUES ({k}, 20, '', true)", k=100 + n)
    if n:
        at.sql("INSERT INTO {t}_from VALUES ({k}, 15, 'late', false)", k=100 + n - 1)


def _feed_by_time(at: At, n: int) -> None:
    for i in range(3):
        at.sql("INSERT INTO {t}_from VALUES ({id}, TIMESTAMP'2024-01-0{day} 00:00:00')", id=10 * n + i, day=3 - i)


def _rows_by_time(n: int) -> Rows:
    ids = range(n + 1)
    return [(10 * j + i, datetime.datetime(2024, 1, 3 - i)) for j in ids for i in range(3)]


# -- Other tables ------------------------------------------------------------------------------------------------------


def _clone(kind: str) -> Chapter:
    def begin(at: At) -> None:
        at.sql(
            "CREATE TABLE {t}_from (id INT, v STRING) USING delta "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        at.sql("INSERT INTO {t}_from SELECT /*+ COALESCE(1) */ id, 'a' FROM range(10)")
        at.sql("DELETE FROM {t}_from WHERE id = 9")
        at.sql(f"CREATE TABLE {{t}} {kind} CLONE {{t}}_from")

    def step(at: At, n: int) -> None:
        at.sql("DELETE FROM {t} WHERE id = {n}", n=n)
        at.sql("UPDATE {t} SET v = concat(v, '!') WHERE id = 8")

    def check(at: At, n: int) -> None:
        at.must("SELECT id, v FROM {t} ORDER BY id", [(i, "a" + n * "!" if i == 8 else "a") for i in range(n, 9)])
        at.must("SELECT count(*) FROM {t}_from", [(9,)])

    return Chapter(f"{kind.lower()}-clone", f"{kind} CLONE of a table with deleted rows", begin, step, check)


def _converted() -> Chapter:
    def begin(at: At) -> None:
        at.sql("CREATE TABLE {t} (id BIGINT, p INT) USING parquet PARTITIONED BY (p)")
        at.sql("INSERT INTO {t} SELECT id, id % 2 FROM range(4)")
        at.sql("CONVERT TO DELTA {t}")

    def step(at: At, n: int) -> None:
        at.sql("INSERT INTO {t} VALUES ({id}, 1)", id=10 + n)

    def check(at: At, n: int) -> None:
        at.must("SELECT id, p FROM {t} ORDER BY id", [(0, 0), (1, 1), (2, 0), (3, 1), *((10 + i, 1) for i in range(n))])

    return Chapter("converted", "CONVERT TO DELTA of a Parquet table", begin, step, check)


def _restored() -> Chapter:
    def begin(at: At) -> None:
        at.sql("CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2')")
        at.sql("INSERT INTO {t} VALUES (1)")
        at.sql("INSERT INTO {t} VALUES (2)")

    def step(at: At, n: int) -> None:
        ((newest,),) = [row[:1] for row in at.sql("DESCRIBE HISTORY {t} LIMIT 1")]
        at.sql("DELETE FROM {t}")
        at.sql("INSERT INTO {t} VALUES (99)")
        at.sql("RESTORE TABLE {t} TO VERSION AS OF {v}", v=newest)
        at.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
        at.sql("VACUUM {t} RETAIN 0 HOURS")
        at.sql("INSERT INTO {t} VALUES ({id})", id=10 + n)

    def check(at: At, n: int) -> None:
        at.must("SELECT id FROM {t} ORDER BY id", [(1,), (2,), *((10 + i,) for i in range(n))])

    return Chapter("restored", "RESTORE to a version of the other, VACUUM", begin, step, check)


def _transactions() -> Chapter:
    def begin(at: At) -> None:
        at.sql("CREATE TABLE {t} (id INT, amount INT) USING delta")
        at.sql("CREATE TABLE {t}_other (id INT, amount INT) USING delta")
        at.sql("INSERT INTO {t} VALUES (1, 100)")
        at.sql("INSERT INTO {t}_other VALUES (1, 0)")
        step(at, -1)

    def step(at: At, n: int) -> None:
        at.sql("BEGIN TRANSACTION")
        at.sql("UPDATE {t} SET amount = amount - 10 WHERE id = 1")
        at.sql("UPDATE {t}_other SET amount = amount + 10 WHERE id = 1")
        at.sql("INSERT INTO {t}_other VALUES ({id}, 0)", id=10 + n)
        at.sql("COMMIT")

    def check(at: At, n: int) -> None:
        at.must("SELECT id, amount FROM {t}", [(1, 90 - 10 * n)])
        at.must("SELECT id, amount FROM {t}_other ORDER BY id", [(1, 10 + 10 * n), *((9 + i, 0) for i in range(n + 1))])

    return Chapter("transactions", "transactions over two tables", begin, step, check)


def _hooked() -> Chapter:
    def begin(at: At) -> None:
        at.sql("CREATE TABLE {t} (id INT) USING delta TBLPROPERTIES ('headwater.hooks' = 'heard')")
        at.sql("INSERT INTO {t} VALUES (1)")

    def step(at: At, n: int) -> None:
        at.sql("INSERT INTO {t} VALUES ({id})", id=10 + n)

    def check(at: At, n: int) -> None:
        at.must("SELECT count(*) FROM {t}", [(1 + n,)])
        location = at.sql("DESCRIBE DETAIL {t}")[0][4].removeprefix("file:")
        heard, deadline = "", time.monotonic() + 30
        while (heard.split() or [""])[-1] != str(n + 1) and time.monotonic() < deadline:
            time.sleep(0.1)
            written = Path(location).parent / f"{Path(location).name}.heard"
            heard = written.read_text() if written.exists() else ""
        same("versions that the hook heard", sorted(set(map(int, heard.split()))), list(range(n + 2)))

    return Chapter("hooked", "after hooks, which hear of each version", begin, step, check)


def _large() -> Chapter:
    def begin(at: At) -> None:
        from bench.big_log import make

        make(Path(at.folder) / "large", 120_000)
        at.sql("CREATE TABLE {t} USING delta LOCATION '{at}/large'")

    def step(at: At, n: int) -> None:
        at.sql("INSERT INTO {t} (id) VALUES ({id})", id=-1 - n)

    def check(at: At, n: int) -> None:
        at.must("SELECT count(*), min(id), max(id) FROM {t}", [(120_000_000 + n, -n, 119_999_999)])
        at.must("SELECT id FROM {t} WHERE id < 0 ORDER BY id", [(i,) for i in range(-n, 0)])

    return Chapter("large", "a table of 120,000 files, with the cache on disk", begin, step, check)


_COMPACTING = "'delta.autoOptimize.autoCompact' = 'true', 'delta.autoOptimize.optimizeWrite' = 'true'"
_ICEBERG = "'delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg'"
_PLAIN = "CREATE TABLE {t}_from (id INT, v STRING) USING delta"

CHAPTERS: tuple[Chapter, ...] = (
    _changed_rows("copies", "rows, classic checkpoints", "'delta.checkpointInterval' = '3'"),
    _changed_rows(
        "vectors",
        "deletion vectors, OPTIMIZE, REORG",
        "'delta.enableDeletionVectors' = 'true'",
        after=["OPTIMIZE {t}", "REORG TABLE {t} APPLY (PURGE)"],
    ),
    _changed_rows(
        "v2-checkpoints",
        "V2 checkpoints with sidecars",
        "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2', 'delta.enableDeletionVectors' = 'true'",
    ),
    _changed_rows("in-commit-times", "in-commit timestamps", "'delta.enableInCommitTimestamps' = 'true'"),
    _changed_rows(
        "row-ids",
        "row tracking: ids that rows keep",
        "'delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true'",
        began=_remember_row_ids,
        also=_same_row_ids,
        after=["OPTIMIZE {t}"],
    ),
    _changed_rows("change-feed", "change data feed", "'delta.enableChangeDataFeed' = 'true'", also=_changes),
    _changed_rows(
        "change-feed-vectors",
        "change data feed with deletion vectors",
        "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'",
        also=_changes,
    ),
    _changed_rows("clustered", "CLUSTER BY, OPTIMIZE", clause="CLUSTER BY (id)", after=["OPTIMIZE {t}"]),
    _changed_rows("z-ordered", "OPTIMIZE ZORDER BY", after=["OPTIMIZE {t} ZORDER BY (id)"]),
    _changed_rows("compacting", "auto-compaction, optimized writes", _COMPACTING),
    _changed_rows("entry", "the entry in Hive's metastore", "'mine' = 'kept'", also=_entry),
    _changed_rows(
        "manifests",
        "symlink manifests that follow commits",
        "'delta.compatibility.symlinkFormatManifest.enabled' = 'true'",
        also=_manifest,
    ),
    _changed_rows("iceberg", "Iceberg metadata that follows commits", _ICEBERG, also=_iceberg_rows),
    _changed_rows(
        "statistics",
        "statistics of chosen columns, recomputed",
        "'delta.dataSkippingStatsColumns' = 'v'",
        after=["ANALYZE TABLE {t} COMPUTE DELTA STATISTICS"],
    ),
    _partitions(),
    _mapping("name"),
    _mapping("id"),
    _computed(),
    _widening(),
    _types(),
    _upserts(),
    _histories(),
    _stream("stream", "a stream from table to table", _Query(_PLAIN)),
    _stream("stream-halfway", "a stream stopped within its initial snapshot", _Query(_PLAIN, halfway=True)),
    _stream(
        "stream-schema-log",
        "a stream with a schema log, at new columns",
        _Query(
            _PLAIN + " TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            {"schemaTrackingLocation": "{at}/checkpoint/schemas"},
            {"mergeSchema": "true"},
            _with_columns,
            _new_column,
        ),
    ),
    _stream(
        "stream-changes",
        "a stream of the change data feed",
        _Query(
            _PLAIN + " TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
            {"readChangeFeed": "true", "startingVersion": "0"},
            rows=_rows_of_changes,
            feed=_feed_of_changes,
        ),
    ),
    _stream(
        "stream-upserts",
        "a stream of upserts with deletions",
        _Query(
            f"CREATE TABLE {{t}}_from ({EVENT}) USING delta",
            writing=UPSERT,
            rows=lambda n: [(1, n, f"v{n}")],
            feed=_feed_of_keys,
            columns="k, at, v",
        ),
    ),
    _stream(
        "stream-by-time",
        "a stream in event-time order, stopped halfway",
        _Query(
            "CREATE TABLE {t}_from (id INT, at TIMESTAMP) USING delta",
            {"withEventTimeOrder": "true"},
            rows=_rows_by_time,
            feed=_feed_by_time,
            halfway=True,
        ),
    ),
    _clone("SHALLOW"),
    _clone("DEEP"),
    _converted(),
    _restored(),
    _transactions(),
    _hooked(),
    _large(),
)

BY_NAME = {chapter.name: chapter for chapter in CHAPTERS}
