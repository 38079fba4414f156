"""Row tracking: a row's id stays for life, its commit version is that of its last change."""

from __future__ import annotations

import random

import pytest
from pyspark.errors import AnalysisException

from support.requests import actions, log_of

TRACKED = "'delta.enableRowTracking' = 'true'"
VECTORS = "'delta.enableDeletionVectors' = 'true'"
MAPPED = "'delta.columnMapping.mode' = 'name'"
CHANGES = "'delta.enableChangeDataFeed' = 'true'"


class Model:
    """A table with the columns ``k`` (unique), ``v`` and ``p``, and the same rows as plain values.

    ``rows``: k → (v, p). ``versions``: k → the version of its last change. ``ids``: k → its row id, as first seen.
    """

    def __init__(self, spark, path, properties, partitioned, seed):
        self.spark, self.path = spark, path
        self.random = random.Random(seed)
        self.version = 0
        self.rows: dict[int, tuple[int, int]] = {}
        self.versions: dict[int, int] = {}
        self.ids: dict[int, int] = {}
        self.next_key = 0
        by = "PARTITIONED BY (p)" if partitioned else ""
        spark.sql(
            f"CREATE TABLE {self.table} (k INT, v INT, p INT) USING delta {by} TBLPROPERTIES ({', '.join(properties)})"
        )

    @property
    def table(self):
        return f"delta.`{self.path}`"

    def run(self, sql):
        self.spark.sql(sql.replace("{t}", self.table))
        self.version += 1

    def put(self, key, value, part):
        self.rows[key], self.versions[key] = (value, part), self.version

    def drop(self, key):
        for kept in (self.rows, self.versions, self.ids):
            kept.pop(key, None)

    def insert(self):
        new = [(self.next_key + i, self.random.randrange(50), self.random.randrange(2)) for i in range(12)]
        self.next_key += len(new)
        self.run(f"INSERT INTO {{t}} VALUES {', '.join(map(str, new))}")
        for key, value, part in new:
            self.put(key, value, part)

    def update(self):
        divisor = self.random.randrange(2, 6)
        hit = [key for key in self.rows if key % divisor == 0]
        if hit:
            self.run(f"UPDATE {{t}} SET v = v + 100 WHERE k % {divisor} = 0")
        for key in hit:
            self.put(key, self.rows[key][0] + 100, self.rows[key][1])

    def delete(self):
        hit = [key for key in self.rows if self.random.random() < 0.2]
        if hit:
            self.run(f"DELETE FROM {{t}} WHERE k IN ({', '.join(map(str, hit))})")
        for key in hit:
            self.drop(key)

    def merge(self):
        known = self.random.sample(sorted(self.rows), min(5, len(self.rows)))
        source = [(key, self.random.randrange(9)) for key in [*known, self.next_key, self.next_key + 1]]
        self.next_key += 2
        rows = ", ".join(map(str, source))
        self.run(
            f"MERGE INTO {{t}} AS t USING (SELECT * FROM VALUES {rows} AS s(k, v)) AS s ON s.k = t.k "
            "WHEN MATCHED AND s.v = 0 THEN DELETE WHEN MATCHED AND s.v > 2 THEN UPDATE SET v = -s.v "
            "WHEN NOT MATCHED THEN INSERT (k, v, p) VALUES (s.k, s.v, 1)"
        )
        for key, value in source:
            if key not in self.rows:
                self.put(key, value, 1)
            elif value == 0:
                self.drop(key)
            elif value > 2:
                self.put(key, -value, self.rows[key][1])

    def replace_where(self):
        new = (self.next_key, 1, 0)
        self.next_key += 1
        self.run(f"INSERT INTO {{t}} REPLACE WHERE v = 1 VALUES {new}")
        for key in [key for key, (value, _) in self.rows.items() if value == 1]:
            self.drop(key)
        self.put(*new)

    def check(self):
        found = self.spark.sql(
            f"SELECT k, v, p, _metadata.row_id AS id, _metadata.row_commit_version AS version FROM {self.table}"
        ).collect()
        assert {row.k: (row.v, row.p) for row in found} == self.rows
        assert {row.k: row.version for row in found} == self.versions
        ids = {row.k: row.id for row in found}
        assert len(set(ids.values())) == len(ids) == len(found)
        for key, row_id in self.ids.items():
            assert ids[key] == row_id, key
        self.ids = ids


@pytest.mark.parametrize(
    ("properties", "partitioned"),
    [
        pytest.param([TRACKED], False, id="copy", marks=pytest.mark.soak),
        pytest.param([TRACKED, VECTORS, CHANGES], True, id="vectors-partitioned-changes"),
        pytest.param([TRACKED, MAPPED, CHANGES], True, id="copy-mapped-partitioned-changes"),
        pytest.param([TRACKED, VECTORS, MAPPED], False, id="vectors-mapped", marks=pytest.mark.soak),
    ],
)
def test_a_row_keeps_its_id_for_life(spark, tmp_path, properties, partitioned):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    model = Model(spark, tmp_path / "t", properties, partitioned, seed)
    model.insert()
    model.insert()
    model.check()
    steps = [model.update, model.delete, model.merge, model.update, model.merge, model.replace_where]
    model.random.shuffle(steps)
    for first, second in zip(steps[::2], steps[1::2], strict=True):
        first()
        second()
        model.check()
    assert model.spark.table(model.table).columns == ["k", "v", "p"]
    last = log_of(model.path, model.version)[0]["commitInfo"]
    assert last["tags"] == {"delta.rowTracking.preserved": "true"}
    # The readers that need rows, filters, joins and single columns of row tracking.
    some = sorted(model.ids)[:4]
    ids = ", ".join(str(model.ids[key]) for key in some)
    by_id = spark.sql(f"SELECT k FROM {model.table} WHERE _metadata.row_id IN ({ids}) ORDER BY k")
    assert [row.k for row in by_id.collect()] == some
    highest = max(model.versions.values())
    changed = spark.table(model.table).where(f"_metadata.row_commit_version = {highest}").select("k")
    assert {row.k for row in changed.collect()} == {k for k, version in model.versions.items() if version == highest}
    joined = spark.sql(
        f"SELECT a.k, b.v FROM {model.table} a JOIN {model.table} b ON a._metadata.row_id = b._metadata.row_id"
    )
    assert {row.k: row.v for row in joined.collect()} == {key: value for key, (value, _) in model.rows.items()}
    wanted = sorted((model.ids[key], model.versions[key]) for key in model.rows)
    query = f"SELECT _metadata.row_id, _metadata.row_commit_version FROM {model.table} ORDER BY 1"
    for setting in ("spark.sql.parquet.enableVectorizedReader", "spark.sql.codegen.wholeStage"):
        spark.conf.set(setting, "false")
        try:
            assert [tuple(row) for row in spark.sql(query).collect()] == wanted
        finally:
            spark.conf.unset(setting)


def test_no_scan_reads_more_than_it_is_asked(spark, tmp_path):
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} USING delta TBLPROPERTIES ({TRACKED}) AS SELECT id FROM range(5)")
    spark.sql(f"UPDATE {table} SET id = id + 10 WHERE id = 2")
    hidden = spark.sql(f"SHOW TBLPROPERTIES {table}").where("key LIKE '%materialized%'").collect()
    assert [row.value[: len("_row-")] for row in hidden] == ["_row-", "_row-"]
    names = [row.value for row in hidden]

    def plan(sql):
        return spark.sql(sql)._jdf.queryExecution().executedPlan().toString()

    assert not any(name in plan(f"SELECT * FROM {table}") for name in names)
    assert sum(name in plan(f"SELECT id, _metadata.row_id FROM {table}") for name in names) == 1
    for name in names:
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
            spark.sql(f"SELECT `{name}` FROM {table}")
        with pytest.raises(AnalysisException, match="DELTA_ADDING_COLUMN_WITH_INTERNAL_NAME_FAILED"):
            spark.sql(f"ALTER TABLE {table} ADD COLUMN `{name}` BIGINT")


def test_tables_without_it_have_no_such_fields(spark, tmp_path):
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} USING delta AS SELECT id FROM range(5)")
    with pytest.raises(AnalysisException, match="FIELD_NOT_FOUND"):
        spark.sql(f"SELECT _metadata.row_id FROM {table}")


def test_enabling_gives_ids_to_rows_that_are_there(spark, tmp_path):
    path = tmp_path / "t"
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING delta TBLPROPERTIES ({VECTORS})")
    for start in (0, 10, 20):
        spark.range(start, start + 10, numPartitions=1).write.format("delta").mode("append").save(str(path))
    spark.sql(f"DELETE FROM {table} WHERE id = 12")
    spark.conf.set("spark.databricks.delta.rowTracking.backfill.maxNumFilesPerCommit", "2")
    try:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({TRACKED})")
    finally:
        spark.conf.unset("spark.databricks.delta.rowTracking.backfill.maxNumFilesPerCommit")
    operations = [log_of(path, version)[0]["commitInfo"]["operation"] for version in range(5, 9)]
    assert operations == ["UPGRADE PROTOCOL", "ROW TRACKING BACKFILL", "ROW TRACKING BACKFILL", "SET TBLPROPERTIES"]
    assert not any(add["dataChange"] for version in (6, 7) for add in actions(path, version, "add"))
    query = f"SELECT id, _metadata.row_id AS row, _metadata.row_commit_version AS version FROM {table}"
    before = {row.id: (row.row, row.version) for row in spark.sql(query).collect()}
    assert len(before) == len({row for row, _ in before.values()}) == 29
    assert {version for _, version in before.values()} == {6, 7}
    spark.sql(f"UPDATE {table} SET id = -id WHERE id = 25")
    after = {row.id: (row.row, row.version) for row in spark.sql(query).collect()}
    assert after.pop(-25) == (before.pop(25)[0], 9)
    assert after == before
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.enableRowTracking')")
    with pytest.raises(AnalysisException, match="FIELD_NOT_FOUND"):
        spark.sql(query)


def test_what_the_rows_of_a_file_share(spark, rows, tmp_path):
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta TBLPROPERTIES ({TRACKED}, {VECTORS})")
    spark.sql(f"INSERT INTO {table} SELECT id FROM range(0, 3, 1, 1)")
    spark.sql(f"INSERT INTO {table} SELECT id FROM range(3, 5, 1, 1)")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    shared = "_metadata.base_row_id, _metadata.default_row_commit_version"
    expected = [(0, 0, 1), (2, 0, 1), (3, 3, 2), (4, 3, 2)]
    assert rows(f"SELECT id, {shared} FROM {table} ORDER BY id") == expected
    assert rows(f"SELECT id FROM {table} WHERE _metadata.base_row_id = 3 AND _metadata.row_id = 4") == [(4,)]
    assert rows(f"SELECT max(_metadata.base_row_id), count(*) FROM {table}") == [(3, 4)]
    assert spark.sql(f"SELECT {shared} FROM {table}").dtypes == [
        (name, "bigint") for name in ("base_row_id", "default_row_commit_version")
    ]
    logged = [add for version in (1, 2) for add in actions(tmp_path / "t", version, "add")]
    assert [(add["baseRowId"], add["defaultRowCommitVersion"]) for add in logged] == [(0, 1), (3, 2)]
    spark.sql(f"CREATE TABLE delta.`{tmp_path / 'plain'}` (id INT) USING delta")
    for field in ("base_row_id", "default_row_commit_version", "row_id", "row_commit_version"):
        with pytest.raises(AnalysisException) as caught:
            spark.sql(f"SELECT _metadata.{field} FROM delta.`{tmp_path / 'plain'}`")
        assert caught.value.getCondition() == "FIELD_NOT_FOUND"
