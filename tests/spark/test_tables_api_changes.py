"""DELETE, UPDATE and MERGE through the Python API, with texts and with Columns."""

from __future__ import annotations

import sys

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from headwater.tables import DeltaTable


@pytest.fixture
def table(spark, tmp_path):
    """Ids 0 to 4 with ``v`` ten times as much and a struct ``s`` of ``a``, which is the id, and ``b``."""
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` USING delta AS "
        "SELECT id, id * 10 AS v, named_struct('a', id, 'b', 'x') AS s FROM range(5)"
    )
    return DeltaTable.forPath(spark, path)


@pytest.fixture
def source(spark):
    """Ids 3 to 6 with ``v`` a hundred times as much."""
    return spark.range(3, 7).select("id", (F.col("id") * 100).alias("v"))


@pytest.fixture(autouse=True)
def no_views_left(spark):
    yield
    assert [t.name for t in spark.catalog.listTables() if t.name.startswith("__headwater")] == []


def values(table):
    """``{id: v}`` of the table as it is now."""
    found = [(row.id, row.v) for row in table.toDF().collect()]
    assert len(found) == len(dict(found))
    return dict(found)


def made(condition):
    """A condition; a Column can be made only once there is a session."""
    return condition if isinstance(condition, str) else condition()


def metrics(frame):
    return frame.first().asDict()


class TestDelete:
    @pytest.mark.parametrize(
        "condition",
        [
            "id >= 3 -- the last two",
            lambda: F.col("id") >= 3,
            lambda: F.expr("v > 20"),
            lambda: F.col("s.a").isin(3, 4),
            "id IN (SELECT id FROM range(3, 9))",
        ],
    )
    def test_delete_counts_the_rows_that_its_condition_names(self, table, condition):
        assert metrics(table.delete(made(condition))) == {"num_affected_rows": 2}
        assert values(table) == {0: 0, 1: 10, 2: 20}

    @pytest.mark.parametrize("condition", ["done", lambda: F.col("done")])
    def test_a_column_that_is_a_condition(self, spark, tmp_path, condition):
        spark.range(4).selectExpr("id", "id > 1 AS done").write.format("delta").save(str(tmp_path / "t"))
        table = DeltaTable.forPath(spark, str(tmp_path / "t"))
        table.update(made(condition), {"id": "id + 10"})
        table.delete(made(condition))
        assert sorted(table.toDF().collect()) == [(0, False), (1, False)]

    def test_delete_without_a_condition_empties_the_table(self, table):
        table.delete()
        assert values(table) == {}

    def test_under_an_alias(self, table):
        aliased = table.alias("t")
        aliased.delete("t.id = 0")
        aliased.delete(F.col("t.id") == 1)
        aliased.delete(table.toDF().id == 2)
        aliased.delete(aliased.toDF()["s"]["a"] == 3)
        assert values(aliased) == {4: 40}

    def test_by_name(self, spark, database):
        spark.sql("CREATE TABLE named USING delta AS SELECT id FROM range(4)")
        table = DeltaTable.forName(spark, "named")
        table.delete("named.id = 1")
        table.delete(F.col("named.id") == 2)
        assert sorted(table.toDF().collect()) == [(0,), (3,)]

    def test_subqueries_of_columns(self, spark, table):
        few = spark.range(3, 9).alias("few")
        table.alias("t").delete(few.where(F.col("few.id") == F.col("t.id").outer()).exists())
        assert values(table) == {0: 0, 1: 10, 2: 20}
        table.delete(F.col("id") == spark.range(3).select(F.max("id")).scalar())
        assert values(table) == {0: 0, 1: 10}


class TestUpdate:
    def test_texts_and_columns(self, table):
        updated = table.alias("t").update(
            F.col("t.id") == 1, {"t.v": "v + 1", "s.a": F.col("s.a") + F.lit(7), "`s`.`b`": F.concat("s.b", F.lit("y"))}
        )
        assert metrics(updated) == {"num_affected_rows": 1}
        assert table.toDF().where("id = 1").collect() == [(1, 11, (8, "xy"))]
        table.update("id = 2", {"v": F.lit(None)})
        table.update(set={"s.b": "'z'"})
        assert values(table) == {0: 0, 1: 11, 2: None, 3: 30, 4: 40}
        assert {row.s.b for row in table.toDF().collect()} == {"z"}

    def test_values_that_differ_from_row_to_row(self, table):
        table.update(set={"s.b": F.expr("uuid()")})
        assert len({row.s.b for row in table.toDF().collect()}) == 5

    def test_functions_in_python(self, spark, table, monkeypatch):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)

        @F.udf("bigint")
        def twice(value):
            return 2 * value

        table.update("id > 2", {"v": twice("v")})
        assert values(table) == {0: 0, 1: 10, 2: 20, 3: 60, 4: 80}

    def test_odd_names(self, spark, tmp_path):
        path = str(tmp_path / "odd")
        spark.sql(
            f"CREATE TABLE delta.`{path}` (`a.b` INT, `c d` STRUCT<`e``f`: INT>) USING delta "
            "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
        )
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, named_struct('e`f', 2))")
        table = DeltaTable.forPath(spark, path)
        table.update(set={"`a.b`": "`a.b` + 10", "c d.`e``f`": F.col("`a.b`") + 20})
        assert table.toDF().collect() == [(11, (21,))]

    def test_what_spark_refuses(self, table, fails):
        before = values(table)
        with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "vv", state="42703"):
            table.update(set={"v": F.col("vv")})
        with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "vv", state="42703"):
            table.delete("vv > 1")
        with fails("PARSE_SYNTAX_ERROR", state="42601"):
            table.delete("id >")
        for column in (F.max("v"), F.row_number().over(Window.orderBy("id")), F.explode(F.array("v"))):
            with fails("DELTA_AGGREGATION_NOT_SUPPORTED"):
                table.update(set={"v": column})
            with fails("DELTA_AGGREGATION_NOT_SUPPORTED"):
                table.delete(column > 1)
        assert values(table) == before


class TestMerge:
    def test_merge_by_texts_changes_each_kind_of_row(self, table, source):
        merged = (
            table.alias("t")
            .merge(source.alias("s"), "t.id = s.id")
            .whenMatchedUpdate("s.v < 400", {"v": "s.v + t.v"})
            .whenMatchedDelete()
            .whenNotMatchedInsert("s.id < 6", {"id": "s.id", "v": "v", "s": "named_struct('a', s.id, 'b', 'n')"})
            .whenNotMatchedBySourceUpdate("t.id > 1", {"t.v": "-v"})
            .whenNotMatchedBySourceDelete("id = 0")
            .execute()
        )
        assert metrics(merged) == {
            "num_affected_rows": 5, "num_updated_rows": 2, "num_deleted_rows": 2, "num_inserted_rows": 1,
        }  # fmt: skip
        assert values(table) == {1: 10, 2: -20, 3: 330, 5: 500}

    def test_merge_by_columns_changes_each_kind_of_row(self, table, source):
        t, s = table.alias("t"), source.alias("s")
        merged = (
            t.merge(s, F.col("t.id") == F.col("s.id"))
            .whenMatchedUpdate(F.col("s.v") < 400, {"v": F.col("s.v") + F.col("t.v")})
            .whenMatchedDelete()
            # the target is not to be seen here, so these names mean the source's
            .whenNotMatchedInsert(F.col("id") < 6, {"id": F.col("id"), "v": F.col("v")})
            .whenNotMatchedBySourceUpdate(F.col("id") > 1, {"v": -F.col("v")})
            .whenNotMatchedBySourceDelete(table.toDF().id == 0)
            .execute()
        )
        assert metrics(merged)["num_affected_rows"] == 5
        assert values(table) == {1: 10, 2: -20, 3: 330, 5: 500}

    def test_columns_of_the_frames(self, table, source):
        target = table.toDF()
        table.merge(source, target.id == source.id).whenMatchedUpdate(
            target["v"] > 30, {"v": source["v"] - target["v"]}
        ).execute()
        assert values(table) == {0: 0, 1: 10, 2: 20, 3: 30, 4: 360}

    def test_texts_beside_columns(self, table, source):
        table.alias("t").merge(source.alias("s"), F.col("t.id") == F.col("s.id")).whenMatchedUpdate(
            "s.id = 3", {"v": "t.v + s.v"}
        ).whenNotMatchedInsert(F.col("s.id") == 5, {"id": "id", "v": F.col("id")}).execute()
        assert values(table) == {0: 0, 1: 10, 2: 20, 3: 330, 4: 40, 5: 5}

    def test_all_columns(self, table, source):
        table.alias("t").merge(
            source.withColumn("s", F.lit(None).cast("struct<a:bigint,b:string>")).alias("s"), "t.id = s.id"
        ).whenMatchedUpdateAll("t.id = 3").whenNotMatchedInsertAll(F.col("s.id") > 5).execute()
        assert values(table) == {0: 0, 1: 10, 2: 20, 3: 300, 4: 40, 6: 600}

    @pytest.mark.parametrize(
        "condition", ["t.id = a.id AND a.w = 1", lambda: (F.col("t.id") == F.col("a.id")) & F.expr("w = 1")]
    )
    def test_the_aliases_inside_a_source(self, spark, table, condition):
        left = spark.range(5).withColumn("w", F.col("id") % 2).alias("a")
        source = left.join(spark.range(5).alias("b"), F.col("a.id") == F.col("b.id")).where("a.id > 0")
        table.alias("t").merge(source, made(condition)).whenMatchedUpdate(
            set={"v": "a.id + b.id"}
        ).whenNotMatchedInsert(F.col("a.id") > 3, {"id": F.col("a.id") + F.col("b.id") * 10, "v": "b.id"}).execute()
        assert values(table) == {0: 0, 1: 2, 2: 20, 3: 6, 4: 40, 44: 4}

    def test_a_table_as_the_source(self, spark, table, database):
        spark.sql("CREATE TABLE src USING delta AS SELECT 1L AS id, 2L AS w")
        table.alias("t").merge(spark.table("src"), "t.id = src.id").whenMatchedUpdate(set={"v": "src.w"}).execute()
        table.merge(DeltaTable.forName(spark, "src").toDF(), F.col("v") == F.col("w")).whenMatchedUpdate(
            set={"v": F.col("w") + 1}
        ).execute()
        assert values(table) == {0: 0, 1: 3, 2: 20, 3: 30, 4: 40}

    @pytest.mark.parametrize("condition", ["t.id = s.id + 1", lambda: F.col("t.id") == F.col("s.id") + 1])
    def test_the_table_itself_as_the_source(self, table, condition):
        table.alias("t").merge(table.toDF().alias("s"), made(condition)).whenMatchedUpdate(
            set={"v": F.col("s.v") + F.col("t.v")}
        ).execute()
        assert values(table) == {0: 0, 1: 10, 2: 30, 3: 50, 4: 70}

    @pytest.mark.parametrize("condition", ["t.id = s.id", lambda: F.col("t.id") == F.col("s.id")])
    def test_a_source_of_another_session(self, spark, table, condition):
        source = spark.newSession().range(3, 5).alias("s")
        table.alias("t").merge(source, made(condition)).whenMatchedDelete(F.col("s.id") == 3).execute()
        assert values(table) == {0: 0, 1: 10, 2: 20, 4: 40}

    def test_the_batches_of_a_stream(self, spark, table, source, tmp_path):
        source.coalesce(1).write.parquet(str(tmp_path / "in"))

        def upsert(batch, number):
            table.alias("t").merge(batch.alias("s"), "t.id = s.id").whenMatchedUpdate(
                set={"v": F.col("s.v")}
            ).whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"}).execute()

        stream = spark.readStream.schema(source.schema).parquet(str(tmp_path / "in"))
        query = stream.writeStream.foreachBatch(upsert).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
        assert values(table) == {0: 0, 1: 10, 2: 20, 3: 300, 4: 400, 5: 500, 6: 600}

    def test_schema_evolution(self, table, source):
        wide = source.withColumn("w", F.lit(7))
        merge = table.alias("t").merge(wide.alias("s"), "t.id = s.id")
        merge.withSchemaEvolution().whenMatchedUpdate(set={"v": "s.v", "w": F.col("s.w")}).execute()
        assert values(table) == {0: 0, 1: 10, 2: 20, 3: 300, 4: 400}
        table.update(F.col("w") == 7, {"v": F.col("w")})
        assert values(table) == {0: 0, 1: 10, 2: 20, 3: 7, 4: 7}

    def test_a_cached_source_stays_cached(self, table, source):
        source.cache().count()
        try:
            table.merge(source, F.lit(False)).whenNotMatchedInsert(values={"id": F.col("id"), "v": "v"}).execute()
            assert source.storageLevel.useMemory
            assert table.toDF().count() == 9
        finally:
            source.unpersist()

    def test_what_spark_refuses(self, table, source, fails):
        before = values(table)
        merge = table.alias("t").merge(source.alias("src"), "t.id = src.id")
        with fails("AMBIGUOUS_REFERENCE", "`id`", state="42704"):
            table.alias("t").merge(source.alias("s"), F.col("id") == 1).whenMatchedDelete().execute()
        with fails("AMBIGUOUS_REFERENCE", "`id`", state="42704"):
            table.alias("t").merge(source.alias("s"), "id = 1").whenMatchedDelete().execute()
        with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", state="42703"):
            merge.whenNotMatchedInsert(values={"id": F.col("t.id")}).execute()
        with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", state="42703"):
            merge.whenNotMatchedBySourceUpdate(set={"v": F.col("src.v")}).execute()
        assert values(table) == before
