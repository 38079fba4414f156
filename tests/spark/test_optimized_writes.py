"""Optimized writes through Spark: how many files a partition gets, who asks for it, and that rows stay the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore

pytestmark = pytest.mark.spark

_SETTINGS = "spark.databricks.delta.optimizeWrite"
_PROPERTY = "'delta.autoOptimize.optimizeWrite' = 'true'"
#: More than a small job reads, and more than one does with half of them.
_ROWS = 150_000
_MORE = 300_000


@pytest.fixture(autouse=True)
def _unset(spark) -> Iterator[None]:
    yield
    for name in ("enabled", "binSize", "maxShufflePartitions"):
        spark.conf.unset(f"{_SETTINGS}.{name}")


def files(path: Path) -> Counter[str | None]:
    """The number of live files of each partition."""
    found = load_snapshot(str(path), LocalStore()).files.to_pylist()
    return Counter(next(iter(dict(row["partition_values"]).values()), None) for row in found)


def create(spark, path: Path, columns: str = "id BIGINT, p INT", by: str = "p", properties: str = _PROPERTY) -> str:
    partitioned = f"PARTITIONED BY ({by})" if by else ""
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta {partitioned} TBLPROPERTIES ({properties})")
    return f"delta.`{path}`"


def test_each_partition_gets_one_file_of_a_large_job_and_of_a_small_one(spark, rows, tmp_path) -> None:
    table = create(spark, tmp_path / "t")
    spark.sql(f"INSERT INTO {table} SELECT id, id % 7 FROM range(0, {_ROWS}, 1, 8)")
    assert files(tmp_path / "t") == {str(p): 1 for p in range(7)}
    spark.sql(f"INSERT INTO {table} SELECT id, id % 7 FROM range(0, 70, 1, 8)")
    assert files(tmp_path / "t") == {str(p): 2 for p in range(7)}
    assert rows(f"SELECT count(*), sum(id), count(DISTINCT p) FROM {table}") == [
        (_ROWS + 70, _ROWS * (_ROWS - 1) // 2 + 35 * 69, 7)
    ]
    # CREATE … AS SELECT, overwrites, the DataFrame writer and streams.
    as_select = tmp_path / "ctas"
    spark.sql(
        f"CREATE TABLE delta.`{as_select}` USING delta PARTITIONED BY (p) TBLPROPERTIES ({_PROPERTY}) AS "
        f"SELECT id, id % 3 AS p FROM range(0, {_ROWS}, 1, 8)"
    )
    assert set(files(as_select).values()) == {1}
    spark.sql(f"INSERT OVERWRITE {table} SELECT id, id % 5 FROM range(0, {_ROWS}, 1, 8)")
    assert files(tmp_path / "t") == {str(p): 1 for p in range(5)}
    stream = spark.readStream.format("delta").load(str(tmp_path / "t"))
    target = tmp_path / "sink"
    create(spark, target)
    query = stream.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query.format("delta").start(str(target)).awaitTermination()
    assert files(target) == {str(p): 1 for p in range(5)}


def test_a_large_partition_is_cut_by_bytes_and_others_are_not(spark, tmp_path) -> None:
    """Skewed: one of 40 partitions has nearly all rows."""
    path = tmp_path / "t"
    table = create(spark, path, "v STRING, p INT")
    spark.conf.set(f"{_SETTINGS}.binSize", "1m")
    spark.sql(
        f"INSERT INTO {table} SELECT concat(uuid(), uuid()), CAST(if(id % 10 = 0, id % 40, 999) AS INT) "
        "FROM range(0, 150000, 1, 24)"
    )
    found = files(path)
    large = found.pop("999")
    # About 135,000 rows of 60 to 90 bytes.
    assert 6 <= large <= 16
    assert set(found.values()) == {1}
    # Cut at the edges of map tasks only: no file is far above the bin.
    live = load_snapshot(str(path), LocalStore()).files.to_pylist()
    assert max(row["size"] for row in live) < 2 << 20


def test_who_asks_for_it(spark, tmp_path, fails) -> None:
    """The option, then the session, then the table."""
    frame = spark.sql("SELECT id FROM range(0, 40, 1, 4)")

    def written(option=None, session=None, table=None) -> int:
        path = tmp_path / f"{option}{session}{table}"
        create(spark, path, "id BIGINT", "", "'a' = 'b'" if table is None else _PROPERTY.replace("true", table))
        if session is not None:
            spark.conf.set(f"{_SETTINGS}.enabled", session)
        writer = frame.write.format("delta").mode("append")
        (writer if option is None else writer.option("optimizeWrite", option)).save(str(path))
        spark.conf.unset(f"{_SETTINGS}.enabled")
        return sum(files(path).values())

    assert [written("true", "false", "false"), written(None, "true", "false"), written(None, None, "true")] == [1] * 3
    assert [written("false", "true", "true"), written(None, "false", "true"), written(None, None, "false")] == [4] * 3
    assert [written("true"), written()] == [1, 4]
    path = tmp_path / "wrong"
    create(spark, path, "id BIGINT", "")
    for size in ("large", "0"):
        spark.conf.set(f"{_SETTINGS}.binSize", size)
        with fails("DELTA_ILLEGAL_OPTION", "512m"):
            frame.write.format("delta").mode("append").save(str(path))
    with fails("DELTA_ILLEGAL_OPTION", "optimizeWrite"):
        frame.write.format("delta").mode("append").option("optimizeWrite", "yes").save(str(path))


def test_sorted_rows_of_a_table_without_partitions_stay_together(spark, tmp_path) -> None:
    path = tmp_path / "t"
    table = create(spark, path, "id BIGINT, v STRING", "")
    spark.conf.set(f"{_SETTINGS}.binSize", "1m")
    spark.sql(f"INSERT INTO {table} SELECT id, concat(uuid(), uuid()) FROM range(0, 150000, 1, 24)")
    live = load_snapshot(str(path), LocalStore()).files.to_pylist()
    assert 6 <= len(live) <= 16
    stats = [json.loads(file["stats"]) for file in live]
    bounds = sorted((each["minValues"]["id"], each["maxValues"]["id"]) for each in stats)
    assert all(before[1] < after[0] for before, after in zip(bounds, bounds[1:], strict=False))


def test_one_task_is_not_shuffled(spark, tmp_path) -> None:
    path = tmp_path / "t"
    table = create(spark, path)
    spark.sparkContext.setJobGroup("one task", "")
    try:
        spark.sql(f"INSERT INTO {table} SELECT id, id % 3 FROM range(0, 30, 1, 1)")
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("one task")
        stages = [stage for job in jobs for stage in spark.sparkContext.statusTracker().getJobInfo(job).stageIds]
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(stages) <= 1
    assert files(path) == {"0": 1, "1": 1, "2": 1}


#: Rows whose order is neither that of ``h`` nor of the partition columns.
_UNORDERED = (
    "(SELECT CAST(hash(id) AS INT) AS h, concat(uuid(), uuid()) AS v, CAST(id % 3 AS INT) AS p, "
    f"concat('q', id % 2) AS q FROM range(0, {_ROWS}, 1, 8))"
)
_PARTITIONS = ["", "p", "q, p", "d"]


def shuffled(spark, statement: str) -> int:
    """Runs it; how many rows went through shuffles."""
    spark.sparkContext.setJobGroup(statement, "")
    try:
        spark.sql(statement)
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    tracker, store = spark.sparkContext.statusTracker(), spark.sparkContext._jsc.sc().statusStore()
    jobs = tracker.getJobIdsForGroup(statement)
    # A job skips stages that an earlier one of the statement ran.
    ran = {
        stage for job in jobs for stage in tracker.getJobInfo(job).stageIds if tracker.getStageInfo(stage) is not None
    }
    return sum(store.lastStageAttempt(stage).shuffleWriteRecords() for stage in ran)


def written(path: Path) -> list[list[list[int]]]:
    """The column ``h`` of each live file, in the file's order, by partition."""
    partitions: dict[str, list[list[int]]] = {}
    for row in load_snapshot(str(path), LocalStore()).files.to_pylist():
        values = pq.ParquetFile(path / unquote(row["path"])).read(["h"])["h"].to_pylist()
        partitions.setdefault(str(row["partition_values"]), []).append(values)
    return list(partitions.values())


def is_sorted(values: list[int]) -> bool:
    return values in (sorted(values), sorted(values, reverse=True))


def lie_apart(files: list[list[int]]) -> bool:
    bounds = sorted((min(values), max(values)) for values in files)
    return all(before[1] <= after[0] for before, after in zip(bounds, bounds[1:], strict=False))


@pytest.fixture
def load(spark, rows, tmp_path) -> Iterator[Callable[[str, str], tuple[float, list[list[list[int]]]]]]:
    """Loads a new table that is partitioned so by a query over ``_UNORDERED``: how often a row was shuffled, and
    :func:`written`.
    """
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "12")
    spark.conf.set(f"{_SETTINGS}.binSize", "1m")
    # The column h is widened on its way, and d is generated: partition columns below the write are expressions.
    columns = "h BIGINT, v STRING, p INT, q STRING, d STRING GENERATED ALWAYS AS (concat('d', CAST(p AS STRING)))"

    def loaded(by: str, query: str) -> tuple[float, list[list[list[int]]]]:
        path = tmp_path / str(abs(hash((by, query))))
        table = create(spark, path, columns, by)
        moved = shuffled(spark, f"INSERT INTO {table} (h, v, p, q) {query.format(rows=_UNORDERED)}")
        assert rows(f"SELECT count(*), sum(h), count_if(d = concat('d', p)) FROM {table}") == rows(
            f"SELECT count(*), sum(h), count(*) FROM {_UNORDERED}"
        )
        if moved == _ROWS:
            assert max(row["size"] for row in load_snapshot(str(path), LocalStore()).files.to_pylist()) < 3 << 20
        return moved / _ROWS, written(path)

    yield loaded
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.parametrize("by", _PARTITIONS)
def test_a_sorted_load_is_shuffled_once(load, by) -> None:
    """Its files are sorted, and those of a partition are of ranges that lie apart."""
    for query in (
        "SELECT * FROM {rows} ORDER BY h DESC NULLS LAST",
        "SELECT /*+ REPARTITION_BY_RANGE(30, h) */ * FROM {rows} SORT BY h",
    ):
        moved, partitions = load(by, query)
        assert moved == 1, query
        assert all(is_sorted(values) for files in partitions for values in files)
        assert all(lie_apart(files) for files in partitions)
        assert len(partitions) == {"": 1, "p": 3, "q, p": 6, "d": 3}[by]
        # About 9 MB; a task that ends one partition and begins another makes one file more.
        assert 6 <= sum(len(files) for files in partitions) <= 16 + len(partitions)


@pytest.mark.parametrize("by", _PARTITIONS)
@pytest.mark.parametrize(
    ("query", "shuffled_by"),
    [
        ("SELECT * FROM {rows} CLUSTER BY h", {""}),
        pytest.param("SELECT * FROM {rows} DISTRIBUTE BY h", {""}, marks=pytest.mark.soak),
        pytest.param("SELECT /*+ REPARTITION(30) */ * FROM {rows}", {""}, marks=pytest.mark.soak),
        pytest.param("SELECT /*+ REBALANCE(h) */ * FROM {rows}", {""}, marks=pytest.mark.soak),
        ("SELECT * FROM {rows} DISTRIBUTE BY p SORT BY h", {"", "p", "q, p"}),
        pytest.param("SELECT /*+ REBALANCE(p) */ * FROM {rows}", {"", "p", "q, p"}, marks=pytest.mark.soak),
        pytest.param("SELECT * FROM {rows} ORDER BY rand()", set(_PARTITIONS), marks=pytest.mark.soak),
        pytest.param("SELECT * FROM {rows} SORT BY h", set(_PARTITIONS), marks=pytest.mark.soak),
    ],
)
def test_a_distributed_load_is_shuffled_once_where_its_distribution_will_do(load, by, query, shuffled_by) -> None:
    """``shuffled_by``: partition columns with which the write and the query share a shuffle."""
    moved, partitions = load(by, query)
    assert moved == (1 if by in shuffled_by else 2)
    if "SORT BY" in query and "DISTRIBUTE" in query and by in shuffled_by:
        assert all(is_sorted(values) for files in partitions for values in files)


def test_a_small_sorted_load_is_one_task(spark, rows, tmp_path) -> None:
    path = tmp_path / "t"
    table = create(spark, path)
    spark.sql(f"INSERT INTO {table} SELECT id, id % 3 FROM range(0, 70, 1, 8) ORDER BY id DESC")
    assert files(path) == {"0": 1, "1": 1, "2": 1}
    assert rows(f"SELECT count(*), sum(id) FROM {table}") == [(70, 35 * 69)]


def test_what_else_a_table_asks_of_its_rows(spark, rows, tmp_path, fails) -> None:
    """Constraints, generated and identity columns, row tracking, column mapping, change data."""
    path = tmp_path / "t"
    table = create(
        spark,
        path,
        "k BIGINT GENERATED BY DEFAULT AS IDENTITY, id BIGINT NOT NULL, "
        "p INT GENERATED ALWAYS AS (CAST(id % 3 AS INT))",
        properties=f"{_PROPERTY}, 'delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = 'name', "
        "'delta.enableChangeDataFeed' = 'true'",
    )
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT few CHECK (id < 1000000)")
    spark.sql(f"INSERT INTO {table} (id) SELECT id FROM range(0, {_ROWS}, 1, 8)")
    spark.sql(f"INSERT INTO {table} (k, id) SELECT -id, id FROM range(0, {_ROWS}, 1, 8)")
    assert rows(f"SELECT count(*), count(DISTINCT _metadata.row_id), count_if(p = id % 3), max(k) FROM {table}") == [
        (2 * _ROWS, 2 * _ROWS, 2 * _ROWS, _ROWS)
    ]
    assert set(files(path).values()) <= {2}
    assert sum(files(path).values()) == 6
    spark.sql(f"INSERT OVERWRITE {table} (k, id) SELECT id, id FROM range(0, {_ROWS}, 1, 8)")
    assert rows(
        f"SELECT _change_type, count(*) FROM table_changes_by_path('{path}', 4, 4) GROUP BY _change_type ORDER BY 1"
    ) == [("delete", 2 * _ROWS), ("insert", _ROWS)]
    many = f"FROM range(0, {_ROWS}, 1, 8)"
    for wrong, condition in (
        ("NULL", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"),
        ("2000000", "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
    ):
        with fails(condition):
            spark.sql(f"INSERT INTO {table} (k, id) SELECT id, if(id = 77777, {wrong}, id) {many}")
    assert rows(f"SELECT count(*) FROM {table}") == [(_ROWS,)]


@pytest.mark.parametrize("vectors", [pytest.param(False, marks=pytest.mark.soak), True])
def test_rewrites_gather_their_rows(spark, rows, tmp_path, vectors) -> None:
    """Each of the statements that write rows of the table again leaves one file for each partition that it touches."""
    path = tmp_path / "t"
    told = f"'delta.enableDeletionVectors' = '{str(vectors).lower()}', 'delta.enableChangeDataFeed' = 'true'"
    told += ", 'delta.enableRowTracking' = 'true', 'delta.autoOptimize.optimizeWrite' = 'false'"
    # The partition column is generated, and a MERGE moves rows to other partitions.
    table = create(spark, path, "id BIGINT, v BIGINT, p INT GENERATED ALWAYS AS (CAST(v % 5 AS INT))", properties=told)
    spark.sql(f"INSERT INTO {table} (id, v) SELECT id, id FROM range(0, {_ROWS}, 1, 4)")
    assert set(files(path).values()) == {4}
    before = {row[0]: row[1] for row in rows(f"SELECT id, _metadata.row_id FROM {table} WHERE id % 1000 < 7")}
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({_PROPERTY})")
    source = f"(SELECT id * 2 AS id FROM range(0, {_ROWS}, 1, 4))"
    # A MERGE has two jobs that write: the join, and one for unchanged rows or for inserts.
    for statement, changes in (
        (f"UPDATE {table} SET v = v + 5 WHERE id % 3 = 0", {"update_postimage": 50_000}),
        (f"DELETE FROM {table} WHERE id % 7 = 0", {"delete": 21_429}),
        (
            f"MERGE INTO {table} t USING {source} s ON t.id = s.id WHEN MATCHED AND s.id % 4 = 0 THEN UPDATE "
            "SET v = t.v + 1 WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.id)",
            {"update_postimage": 32_142, "delete": 32_143, "insert": 85_715},
        ),
    ):
        jobs = 2 if statement.startswith("MERGE") else 1
        version = load_snapshot(str(path), LocalStore()).version
        text = rows(f"EXPLAIN {statement}")[0][0]
        assert vectors and statement.startswith("DELETE") or "OPTIMIZED_WRITE(2000, 536870912, `p`)" in text
        assert vectors and statement.startswith("DELETE") or "Optimized write" in text
        spark.sql(statement)
        log = (path / "_delta_log" / f"{version + 1:020}.json").read_text().splitlines()
        actions = [json.loads(line) for line in log]
        added = [action["add"] for action in actions if "add" in action]
        added = [add for add in added if not add.get("deletionVector")]
        assert max(Counter(add["partitionValues"]["p"] for add in added).values(), default=1) <= jobs
        pairs = [action["cdc"] for action in actions if "cdc" in action]
        assert max(Counter(cdc["partitionValues"]["p"] for cdc in pairs).values(), default=1) <= jobs
        for cdc in pairs:
            if cdc.get("tags"):
                kinds = pq.read_table(path / cdc["path"])["_change_type"].to_pylist()
                both = zip(kinds, kinds[1:], strict=False)
                assert all(after == "update_postimage" for kind, after in both if kind == "update_preimage")
        told_rows = dict(
            rows(
                f"SELECT _change_type, count(*) FROM table_changes_by_path('{path}', {version + 1}, {version + 1}) "
                "WHERE _change_type <> 'update_preimage' GROUP BY 1"
            )
        )
        assert told_rows == changes
    ids = {row[0]: row[1] for row in rows(f"SELECT id, _metadata.row_id FROM {table} WHERE id % 1000 < 7")}
    kept = {i for i in before if i % 7 and (i % 2 or i % 4 == 0)}
    assert {i: ids[i] for i in kept} == {i: before[i] for i in kept}
    assert rows(f"SELECT count(*), count(DISTINCT _metadata.row_id), count_if(p = v % 5), sum(v) FROM {table}") == rows(
        "SELECT count(*), count(*), count(*), sum(v) FROM ("
        "SELECT v + if(id % 4 = 0, 1, 0) AS v FROM (SELECT id, id + if(id % 3 = 0, 5, 0) AS v "
        f"FROM range({_ROWS})) WHERE id % 7 > 0 AND (id % 2 = 1 OR id % 4 = 0) UNION ALL "
        f"SELECT id * 2 FROM range({_ROWS}) WHERE id * 2 >= {_ROWS} OR id * 2 % 7 = 0)"
    )


def test_rewrites_of_overwrites_gather_their_rows(spark, rows, tmp_path) -> None:
    """The rows that replaceWhere keeps, and those of REPLACE USING, as the write's own option says."""
    path = tmp_path / "t"
    table = create(spark, path, "id BIGINT, p INT", properties="'delta.enableDeletionVectors' = 'false'")
    spark.sql(f"INSERT INTO {table} SELECT id, id % 3 FROM range(0, {_MORE}, 1, 6)")
    frame = spark.sql("SELECT id, CAST(id % 3 AS INT) AS p FROM range(0, 60, 1, 6) WHERE id % 2 = 0")
    writer = frame.write.format("delta").mode("overwrite").option("optimizeWrite", "true")
    writer.option("replaceWhere", "id % 2 = 0").save(str(path))
    assert files(path) == {"0": 2, "1": 2, "2": 2}
    spark.conf.set(f"{_SETTINGS}.enabled", "true")
    spark.sql(f"INSERT INTO {table} REPLACE USING (id) SELECT id, id % 3 FROM range(0, {_MORE // 2}, 1, 6)")
    assert set(files(path).values()) == {2}
    assert rows(f"SELECT count(*), sum(id) FROM {table}") == rows(
        f"SELECT count(*), sum(id) FROM range({_MORE}) WHERE id < {_MORE // 2} OR id % 2 = 1"
    )


def test_the_table_says_how_large_files_become(spark, tmp_path) -> None:
    """OPTIMIZE and optimized writes keep to ``delta.targetFileSize``, unless the session says otherwise."""
    told = "'delta.targetFileSize' = '200kb'"
    table = create(spark, tmp_path / "t", "id BIGINT, p INT", "", f"{told}, {_PROPERTY}")
    plain = create(spark, tmp_path / "plain", "id BIGINT, p INT", "", _PROPERTY)
    for name in (table, plain):
        spark.sql(f"INSERT INTO {name} SELECT id, id % 7 FROM range(0, {_MORE}, 1, 8)")
    assert files(tmp_path / "plain") == {None: 1}
    assert files(tmp_path / "t")[None] > 4

    def sizes() -> list[int]:
        return sorted(row["size"] for row in load_snapshot(str(tmp_path / "t"), LocalStore()).files.to_pylist())

    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.targetFileSize' = '500kb')")
    spark.sql(f"OPTIMIZE {table}")
    merged = sizes()
    assert 1 < len(merged) < 5
    assert 200 << 10 < merged[-1] < 600 << 10
    try:
        for name in ("minFileSize", "maxFileSize"):
            spark.conf.set(f"spark.databricks.delta.optimize.{name}", str(1 << 30))
        spark.sql(f"OPTIMIZE {table}")
        assert len(sizes()) == 1
    finally:
        for name in ("minFileSize", "maxFileSize"):
            spark.conf.unset(f"spark.databricks.delta.optimize.{name}")
