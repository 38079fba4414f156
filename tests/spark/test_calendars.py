"""Days before 1582 and times before 1900, in files of every calendar and written in every mode, judged by plain Spark
over Parquet: rows by Spark and by Arrow, bounds in the log, and what is found by a filter.
"""

from __future__ import annotations

import functools
import itertools
import shutil
from datetime import date
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import expr

from headwater import changelog
from headwater.inspector.sample import sample
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from headwater.stores.file_calendar import FileCalendar

pytestmark = pytest.mark.spark

SPARK, DATES, INT96, ZONE = (
    f"org.apache.spark.{name}" for name in ("version", "legacyDateTime", "legacyINT96", "timeZone")
)
#: What footers say.
MARKS = [
    {},
    {DATES: "", INT96: ""},
    {SPARK: "2.4.8", ZONE: "Asia/Tokyo"},
    {SPARK: "3.0.2", ZONE: "America/Los_Angeles"},
    {SPARK: "4.2.0"},
    {SPARK: "4.2.0", DATES: "", ZONE: "America/Los_Angeles"},
    {SPARK: "4.2.0", INT96: "", ZONE: "Asia/Kolkata"},
    {SPARK: "4.2.0", DATES: "", INT96: "", ZONE: "Europe/Paris"},
]
DAY = 86_400_000_000
#: As files count them: around the last Julian day, a leap day of that calendar alone, around 1883, 1900 and 1970.
COUNTS = [-700_000, -171_595, -141_429, -141_428, -141_427, -31_454, -31_453, -25_568, -25_567, 0, 20_000]
#: The legacy mode for all that Spark writes.
LEGACY = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
}
COLUMNS = "id BIGINT, d DATE, t TIMESTAMP, s STRUCT<d: DATE, t: TIMESTAMP>, l ARRAY<DATE>"
SHOWN = [
    "id", "unix_date(d)", "unix_micros(t)", "unix_date(s.d)", "unix_micros(s.t)", "transform(l, x -> unix_date(x))"
]  # fmt: skip
LEAVES = {"d": "unix_date(d)", "t": "unix_micros(t)", "s.d": "unix_date(s.d)", "s.t": "unix_micros(s.t)"}


def by_spark(frame) -> list[tuple]:
    return sorted(map(tuple, frame.selectExpr(*SHOWN).collect()))


def by_arrow(table: pa.Table) -> list[tuple]:
    def numbers(column):
        return column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64()).to_pylist()

    struct = table["s"].combine_chunks()
    columns = [table["id"], table["d"], table["t"], *struct.flatten()]
    lists = [[(day - date(1970, 1, 1)).days for day in row] for row in table["l"].to_pylist()]
    return sorted(zip(*map(numbers, columns), lists, strict=True))


def finds_the_same(table, plain, rows: list[tuple]) -> None:
    """Whether filters find in a table what they find in its rows as plain Parquet, each by itself."""
    old = sorted({row[1] for row in rows})[:6:2]
    conditions = [f"d = date_from_unix_date({day})" for day in old]
    conditions += [f"s.d < date_from_unix_date({old[1]})", f"t = timestamp_micros({min(row[2] for row in rows)}L)"]
    counts = []
    for frame in (table, plain):
        found = [frame.where(condition).selectExpr(f"{at} at") for at, condition in enumerate(conditions)]
        union = functools.reduce(lambda a, b: a.union(b), found)
        counts.append(sorted(map(tuple, union.groupBy("at").count().collect())))
    assert counts[0] == counts[1]


def bounds_hold(spark, path: Path, is_exact: bool) -> None:
    """Whether the log's bounds are those of the rows that plain Spark reads in each file, or missing."""
    snapshot = load_snapshot(str(path), LocalStore())
    paths = [unquote(name) for name in snapshot.select(["path"])["path"].to_pylist()]
    within = [f"{bound}({of})" for of in LEAVES.values() for bound in ("min", "max")]
    files = [name if name.startswith("file:") else f"{path}/{name}" for name in paths]
    shown = spark.read.schema(COLUMNS).parquet(*files).groupBy("_metadata.file_name").agg(*map(expr, within)).collect()
    true = {row[0]: row[1:] for row in shown}
    found = snapshot.statistics([tuple(name.split(".")) for name in LEAVES])
    for at, name in enumerate(paths):
        values = true[name.rpartition("/")[2]]
        for leaf, column in enumerate(LEAVES):
            if column in snapshot.partition_columns:
                continue
            is_date = column.endswith("d")
            # Maxima of times are widened by what their text leaves out, and old bounds by a minute.
            integers, room = (pa.int32(), 0) if is_date else (pa.int64(), 60_000_999)
            for bound, value in zip(("min", "max"), values[2 * leaf : 2 * leaf + 2], strict=True):
                known = found[f"{bound}.{leaf}"].cast(integers)[at].as_py()
                # Those of the days that a calendar skips are left out.
                if known is None and (not is_exact or -141_438 <= (value if is_date else value // DAY) <= -141_427):
                    continue
                assert abs(known - value) <= room, (name, column)
                assert known <= value if bound == "min" else known >= value, (name, column)


def write_files(path: Path) -> None:
    """A file for each calendar and type of times."""
    path.mkdir()
    for number, (marks, is_int96) in enumerate(itertools.product(MARKS, (False, True))):
        days = [count for count in COUNTS for _ in (0, 1)]
        times = [count * DAY + (i % 2) * 50_000_000_000 + 7 for i, count in enumerate(days)]
        day, time = pa.array(days, pa.date32()), pa.array(times, pa.timestamp("us", "UTC"))
        columns = {
            "id": pa.array([number * 1000 + i for i in range(len(days))]),
            "d": day,
            "t": time,
            "s": pa.StructArray.from_arrays([day, time], ["d", "t"]),
            "l": pa.ListArray.from_arrays(pa.array(range(len(days) + 1), pa.int32()), day),
        }
        table = pa.table(columns).replace_schema_metadata(marks)
        pq.write_table(table, path / f"{number}.parquet", use_deprecated_int96_timestamps=is_int96)


def test_files_of_others(spark, tmp_path, settings):
    """Converted, and rewritten."""
    path, kept = tmp_path / "t", tmp_path / "kept"
    write_files(path)
    shutil.copytree(path, kept)
    plain = spark.read.parquet(str(kept))
    rows = by_spark(plain)
    with settings({"spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true"}):
        spark.sql(f"CONVERT TO DELTA parquet.`{path}`")
    table = spark.read.format("delta").load(str(path))
    assert by_spark(table) == rows
    assert by_arrow(changelog.read(str(path), starting_version=0).read_all()) == rows
    bounds_hold(spark, path, is_exact=False)
    finds_the_same(table, plain, rows)
    shown = sample(load_snapshot(str(path), LocalStore()))["rows"]
    texts = {str(row.id): row.text for row in plain.selectExpr("id", "string(d) text").collect()}
    assert [row[1] for row in shown] == [texts[row[0]] for row in shown]
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert by_spark(table) == rows
    bounds_hold(spark, path, is_exact=True)


def in_checkpoints(spark, settings, path: Path, copy: Path) -> None:
    """A checkpoint of ours gives a Spark in any mode the same bounds, and so does one that Spark writes in any mode."""
    latest = load_snapshot(str(path), LocalStore())
    checkpoint = write_checkpoint(latest).path
    read = []
    for mode in ("CORRECTED", "LEGACY", "EXCEPTION"):
        with settings({"spark.sql.parquet.datetimeRebaseModeInRead": mode}):
            bounds = spark.read.parquet(checkpoint).selectExpr("add.stats_parsed.minValues.*").where("d IS NOT NULL")
            read.append(bounds.selectExpr("unix_date(d)", "unix_micros(t)").collect())
    assert read[0]
    assert read[1:] == read[:1] * 2
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("_delta_log"))
    with settings({**LEGACY, "spark.sql.parquet.outputTimestampType": "INT96"}):
        actions = spark.read.parquet(checkpoint).withColumn("add", expr("add").dropFields("stats"))
        actions.coalesce(1).write.parquet(str(copy / "_new"))
    (copy / "_delta_log").mkdir()
    (written,) = (copy / "_new").glob("*.parquet")
    written.rename(copy / "_delta_log" / Path(checkpoint).name)
    bounds_hold(spark, copy, is_exact=False)


@pytest.fixture
def source(spark, tmp_path):
    """Rows around all places where calendars differ, the days that one of them skips among them."""
    days = [*COUNTS, -141_432]
    spark.createDataFrame([(i, day) for i, day in enumerate(days)], "id BIGINT, n INT").selectExpr(
        "id", "date_from_unix_date(n) d", "timestamp_micros(n * 86400000000L + 3600000007) t"
    ).selectExpr(
        "id", "d", "t", "named_struct('d', d, 't', t) s", "array(d, date_sub(d, 1)) l"
    ).createOrReplaceTempView("source")


@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (d)", "CLUSTER BY (d, t)"])
def test_writes_in_the_legacy_mode(spark, tmp_path, settings, source, layout):
    """Every way to write leaves files that all engines read alike."""
    path, plain_path = tmp_path / "t", tmp_path / "plain"
    name = f"delta.`{path}`"
    changed = "date_add(d, CASE id % 3 WHEN 0 THEN -3 WHEN 1 THEN 5 ELSE 0 END) d"
    spark.sql(f"SELECT id, {changed}, t, s, l FROM source WHERE id <> 5").write.parquet(str(plain_path))
    plain = spark.read.parquet(str(plain_path))
    rows = by_spark(plain)
    clones = [tmp_path / "shallow", tmp_path / "deep"] if not layout else []
    with settings(LEGACY):
        feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING delta {layout} {feed}")
        spark.sql(f"INSERT INTO {name} SELECT * FROM source")
        spark.sql(f"UPDATE {name} SET d = date_sub(d, 3) WHERE id % 3 = 0")
        spark.sql(
            f"MERGE INTO {name} t USING (SELECT id, date_add(d, 5) d FROM source WHERE id % 3 = 1) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET d = s.d"
        )
        spark.sql(f"DELETE FROM {name} WHERE id = 5")
        spark.sql(f"OPTIMIZE {name}")
        for clone, kind in zip(clones, ("SHALLOW", "DEEP"), strict=False):
            spark.sql(f"CREATE TABLE delta.`{clone}` {kind} CLONE {name}")
        table = spark.read.format("delta").load(str(path))
        assert by_spark(table) == rows
        finds_the_same(table, plain, rows)
        for each in [path, *clones]:
            bounds_hold(spark, each, is_exact=True)
    if clones:
        in_checkpoints(spark, settings, path, tmp_path / "behind")
    written = list(path.rglob("*.parquet"))
    assert any("_change_data" in str(file) for file in written)
    assert {FileCalendar.of(pq.read_metadata(file)) for file in written} == {FileCalendar(True, False, False, None)}
    if clones:
        changes = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 0).load(str(path))
        sign = "IF(_change_type IN ('insert', 'update_postimage'), 1, -1)"
        net = changes.groupBy("id", "d", "t").agg(expr(f"sum({sign}) n")).where("n <> 0")
        left = net.selectExpr("id", "unix_date(d)", "unix_micros(t)", "n").collect()
        assert sorted(map(tuple, left)) == [(*row[:3], 1) for row in rows]
        assert by_arrow(changelog.read(str(clones[1]), starting_version=0).read_all()) == rows
