"""The cases of reading, small statements and start-up; the type of all cases, with its target.

A case has rounds. In each round, every side does the same once; which side begins alternates. Preparation is not timed,
and the first rounds only warm up. A target limits our time relative to the other side's.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench import big_log
from bench.sparks import EARLIER, OURS, PEER, PLAIN, Spark

PARQUET = "parquet"
#: Our tables without row tracking.
UNTRACKED = "no row tracking"
#: A case that takes this many times as long as at an earlier commit has become slower; below is noise.
SLOWER = 1.05


@dataclass
class Bench:
    """What cases work with. ``sparks`` has one process for each kind; ``earlier`` is the checkout of the earlier
    commit, and ``memory`` the heap of each Spark unless a case wants its own.
    """

    directory: Path
    sparks: dict[str, Spark]
    rows: int
    files: int
    memory: str = "4g"
    earlier: Path | None = None

    def spark(self, side: str) -> Spark:
        """The process that measures a side: ours, for the sides that differ from it by what it is asked to do."""
        return self.sparks[side if side in self.sparks else OURS]

    def maker(self) -> Spark:
        """The process that writes the tables that all sides start from."""
        return self.spark(PEER)

    def path(self, name: str, side: str) -> Path:
        """The path of a side's table."""
        return self.directory / f"{name}-{side}"

    def fresh(self, kind: str, memory: str | None = None) -> Spark:
        """A new Spark beside the running ones; the caller stops it."""
        return Spark(kind, self.directory, memory or self.memory, self.earlier if kind == EARLIER else None)


#: Runs one round of a side and returns the seconds it took.
Timed = Callable[[Bench, str, int], float]


@dataclass(frozen=True)
class Against:
    """A comparison and its target: our time divided by the other's is at most ``ratio``; or our time is at most
    ``plus`` seconds more; or ours alone is at most ``limit``, in the case's unit.
    """

    other: str | None
    ratio: float | None = None
    plus: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Case:
    """One line of the table, or two where it compares with two."""

    name: str
    title: str
    against: tuple[Against, ...]
    timed: Timed
    rounds: int
    prepare: Callable[[Bench, str], None] = lambda bench, side: None
    warm_up: int = 2
    #: What ``timed`` returns, where that is not seconds.
    unit: str = "s"

    def all_sides(self) -> tuple[str, ...]:
        """Ours and all it is compared with."""
        return (OURS, *(a.other for a in self.against if a.other is not None))

    def against_earlier(self) -> Case:
        """The same, compared with nothing but an earlier commit."""
        return replace(self, against=(Against(EARLIER, ratio=SLOWER),))


def _small_table(name: str, commits: int) -> Callable[[Bench, str], None]:
    """A table of 100 rows in a few files, after a number of commits."""

    def prepare(bench: Bench, side: str) -> None:
        path = bench.path(name, side)
        if path.exists():
            return
        spark = bench.spark(side)
        spark.run(f"CREATE TABLE delta.`{path}` (id BIGINT, name STRING, amount DOUBLE) USING delta")
        for i in range(commits):
            step = 100 // commits
            spark.run(
                f"INSERT INTO delta.`{path}` SELECT id, concat('name ', id), id / 4 "
                f"FROM range({i * step}, {(i + 1) * step}, 1, 1)"
            )

    return prepare


def _files_of_a_row(bench: Bench, side: str) -> None:
    """A table of 70 files with one row each."""
    path = bench.path("rows", side)
    if not path.exists():
        bench.spark(side).run(
            f"CREATE TABLE delta.`{path}` USING delta AS SELECT id, concat('name ', id) AS name "
            "FROM range(0, 70, 1, 70)"
        )


def _partitions(bench: Bench, side: str, number: int) -> float:
    """A task that writes a file into each of 2,000 partitions."""
    path = bench.path(f"partitions{number}", side)
    taken = bench.spark(side).run(
        f"CREATE TABLE delta.`{path}` USING delta PARTITIONED BY (part) AS "
        "SELECT id, id / 4 AS amount, concat('name ', id) AS name, id % 2000 AS part FROM range(0, 20000, 1, 1)"
    )
    shutil.rmtree(path, ignore_errors=True)
    return taken


def _on(name: str, text: str) -> Timed:
    return lambda bench, side, number: bench.spark(side).run(text.format(path=bench.path(name, side), n=number))


_IN_LIST_FILES = 50_000


# A million files


def _point_query(path: Path, number: int) -> str:
    return f"SELECT * FROM delta.`{path}` WHERE id = {number * big_log.ROWS_PER_FILE + 17}"


def _million(bench: Bench) -> Path:
    return bench.directory / "million"


def _big_table(bench: Bench, side: str) -> None:
    if not _million(bench).exists():
        big_log.make(_million(bench), bench.files)


def _copy(bench: Bench, side: str, name: str) -> Path:
    copy = bench.directory / f"million-{side}-{name}"
    if not copy.exists():
        big_log.copy_of(_million(bench), copy)
    return copy


def _plan(spark: Spark, path: Path, number: int) -> float:
    big_log.touch(path, number)
    answer = spark.call("plan", sql=_point_query(path, number))
    if answer["files"] != 1:
        raise AssertionError(f"{spark.kind} reads {answer['files']} files for a query of one")
    return float(answer["seconds"])


def _in_list(values: int) -> Timed:
    """A table that this Spark knows, and a list of that many values, each in a file of its own."""

    def timed(bench: Bench, side: str, number: int) -> float:
        path = bench.path(f"in-list-{values}", side)
        step = _IN_LIST_FILES // values
        listed = range(number % step, _IN_LIST_FILES, step)[:values]
        if not path.exists():
            big_log.make(path, _IN_LIST_FILES)
        for file in listed:
            big_log.touch(path, file)
        ids = ", ".join(str(file * big_log.ROWS_PER_FILE + 17) for file in listed)
        answer = bench.spark(side).call("plan", sql=f"SELECT * FROM delta.`{path}` WHERE id IN ({ids})")
        if answer["files"] < len(listed):
            raise AssertionError(f"{side} reads {answer['files']} files for {len(listed)} values")
        return float(answer["seconds"])

    return timed


def _plan_cold(bench: Bench, side: str, number: int) -> float:
    """A table that this Spark has never seen; the Spark itself is warm."""
    return _plan(bench.spark(side), _copy(bench, side, f"cold{number}"), (number * 7919 + 31) % bench.files)


def _plan_warm(bench: Bench, side: str, number: int) -> float:
    return _plan(bench.spark(side), _copy(bench, side, "warm"), (number * 104729 + 77) % bench.files)


def _memory(bench: Bench, side: str, number: int) -> float:
    """GiB: the peak memory of a handler after one cold and a few warm queries."""
    spark = bench.fresh(side)
    try:
        for i in range(4):
            _plan(spark, _copy(bench, side, f"memory{number}"), (i * 31337 + 5) % bench.files)
        return float(spark.call("handler_peak")["bytes"]) / 2**30
    finally:
        spark.stop()


# Five million rows

COLUMNS = """id, id % 1000 AS device, concat('name-', id % 100000) AS name, CAST(id % 7919 AS DOUBLE) / 4 AS amount,
  DATE'2020-01-01' + CAST(id % 1500 AS INT) AS day,
  TIMESTAMP'2020-01-01 00:00:00' + make_dt_interval(0, 0, 0, id % 86400) AS taken,
  id % 3 = 0 AS flag, CAST(id % 100 AS DECIMAL(10, 2)) AS price"""


def _create_as(bench: Bench, side: str, path: Path) -> float:
    provider = "parquet" if side == PARQUET else "delta"
    return bench.spark(side).run(
        f"CREATE TABLE bench_{path.name.replace('-', '_')} USING {provider} LOCATION '{path}' "
        f"AS SELECT {COLUMNS} FROM range(0, {bench.rows}, 1, 2)"
    )


def _ctas(bench: Bench, side: str, number: int) -> float:
    path = bench.path(f"ctas{number}", side)
    taken = _create_as(bench, side, path)
    bench.spark(side).run(f"DROP TABLE bench_{path.name.replace('-', '_')}")
    shutil.rmtree(path, ignore_errors=True)
    return taken


def _sorted(partitioned: str, order: str) -> Timed:
    """A load whose query sorts its rows, into a table that gathers the rows of its files."""

    def load(bench: Bench, side: str, number: int) -> float:
        path = bench.path(f"sorted{number}", side)
        table = f"bench_{path.name.replace('-', '_')}"
        gathers = "" if side == PARQUET else "TBLPROPERTIES ('delta.autoOptimize.optimizeWrite' = 'true')"
        taken = bench.spark(side).run(
            f"CREATE TABLE {table} USING {'parquet' if side == PARQUET else 'delta'} {partitioned} LOCATION '{path}' "
            f"{gathers} AS SELECT {COLUMNS}, id % 7 AS slot FROM range(0, {bench.rows}, 1, 8) ORDER BY {order}"
        )
        bench.spark(side).run(f"DROP TABLE {table}")
        shutil.rmtree(path, ignore_errors=True)
        return taken

    return load


def _scanned_table(bench: Bench, side: str) -> None:
    path = bench.path("scanned", side)
    if not path.exists():
        _create_as(bench, side, path)


def _scan(bench: Bench, side: str, number: int) -> float:
    provider = "parquet" if side == PARQUET else "delta"
    return float(
        bench.spark(side).call("scan", sql=f"SELECT * FROM {provider}.`{bench.path('scanned', side)}`")["seconds"]
    )


# From nothing to a first result


def _start_table(bench: Bench, side: str) -> None:
    if not bench.path("start", OURS).exists():
        text = "CREATE TABLE {0}.`{1}` USING {0} AS SELECT id FROM range(100)"
        bench.spark(OURS).run(text.format("delta", bench.path("start", OURS)))
        bench.spark(OURS).run(
            f"INSERT OVERWRITE DIRECTORY '{bench.path('start', PLAIN)}' USING parquet SELECT id FROM range(100)"
        )


def _start(bench: Bench, side: str, number: int) -> float:
    spark = bench.fresh(side)
    try:
        provider = "parquet" if side == PLAIN else "delta"
        return float(spark.started + spark.run(f"SELECT * FROM {provider}.`{bench.path('start', side)}`"))
    finally:
        spark.stop()


def cases() -> Iterator[Case]:
    """Every case, the quick ones first."""
    yield Case(
        "insert",
        "one-row INSERT",
        (Against(PEER, ratio=0.7),),
        _on("insert", "INSERT INTO delta.`{path}` VALUES ({n}, 'a name', 1.5)"),
        15,
        _small_table("insert", 1),
        warm_up=10,
    )
    yield Case(
        "count",
        "count(*), small table",
        (Against(PEER, ratio=0.7),),
        _on("small", "SELECT count(*) FROM delta.`{path}`"),
        15,
        _small_table("small", 4),
        warm_up=10,
    )
    yield Case(
        "select",
        "SELECT *, small table",
        (Against(PEER, ratio=0.7),),
        _on("small", "SELECT * FROM delta.`{path}`"),
        15,
        _small_table("small", 4),
        warm_up=10,
    )
    yield Case(
        "select-files",
        "SELECT *, 70 files of a row",
        (Against(PEER, ratio=0.8),),
        _on("rows", "SELECT * FROM delta.`{path}`"),
        15,
        _files_of_a_row,
        warm_up=10,
    )
    yield Case("partitions", "CTAS into 2,000 partitions", (Against(PEER, ratio=1.1),), _partitions, 5, warm_up=1)
    yield Case(
        "history",
        "DESCRIBE HISTORY",
        (Against(PEER, ratio=0.5),),
        _on("history", "DESCRIBE HISTORY delta.`{path}`"),
        11,
        _small_table("history", 20),
        warm_up=10,
    )
    for name, change in (
        ("alter-properties", "SET TBLPROPERTIES ('bench' = '{n}')"),
        ("alter-add-column", "ADD COLUMN added_{n} INT"),
    ):
        yield Case(
            name,
            f"ALTER TABLE {change[:3]} …",
            (Against(PEER, ratio=0.3),),
            _on("altered", f"ALTER TABLE delta.`{{path}}` {change}"),
            11,
            _small_table("altered", 1),
            warm_up=10,
        )
    yield Case(
        "ctas", "CTAS of {rows:,} rows", (Against(PEER, ratio=0.95), Against(PARQUET, ratio=1.1)), _ctas, 5, warm_up=1
    )
    for name, by, partitioned, order, ratio in (
        ("sorted", "", "", "day, device", 0.6),
        ("sorted-partitions", " by partition and name", "PARTITIONED BY (slot)", "slot, name", 0.9),
    ):
        yield Case(
            f"load-{name}",
            f"CTAS of {{rows:,}} rows sorted{by}, optimized write",
            (Against(PEER, ratio=ratio), Against(PARQUET, ratio=1.1)),
            _sorted(partitioned, order),
            5,
            warm_up=1,
        )
    yield Case(
        "scan",
        "full scan of {rows:,} rows",
        (Against(PEER, ratio=1.0), Against(PARQUET, ratio=1.1)),
        _scan,
        7,
        _scanned_table,
    )
    yield Case(
        "plan-cold",
        "plan a point query, {files:,} files, cold",
        (Against(PEER, ratio=0.10),),
        _plan_cold,
        3,
        _big_table,
        warm_up=1,
    )
    yield Case("plan-warm", "the same, warm", (Against(PEER, ratio=0.05),), _plan_warm, 9, _big_table, warm_up=8)
    for values in (1_000, 10_000):
        yield Case(
            f"plan-in-list-{values}",
            f"plan an IN list of {values:,} values, 50,000 files",
            (Against(PEER, ratio=0.5),),
            _in_list(values),
            7,
            warm_up=3,
        )
    yield Case(
        "memory", "handler memory for it", (Against(None, limit=0.8),), _memory, 1, _big_table, warm_up=0, unit="GiB"
    )
    yield Case("start", "start to first result", (Against(PLAIN, plus=1.0),), _start, 5, _start_table, warm_up=1)


def title(case: Case, bench: Bench) -> str:
    """What the table calls the case."""
    return case.title.format(rows=bench.rows, files=bench.files, tenth=bench.files // 10)
