"""DataFrame.write and writeTo: save, saveAsTable and insertInto in every mode, and the options they take."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DoubleType,
    IntegerType,
    StructField,
    StructType,
    UserDefinedType,
)


@pytest.fixture
def data(spark):
    return spark.createDataFrame([(1, "a", 1.5), (2, "b", 2.5)], "id INT, s STRING, x DOUBLE")


@pytest.fixture
def read(spark):
    """A table's rows, sorted; a path or a name."""

    def run(table):
        found = spark.read.format("delta").load(str(table)) if "/" in str(table) else spark.table(table)
        return sorted((tuple(row) for row in found.collect()), key=repr)

    return run


def test_save_modes(data, read, fails, tmp_path):
    path, both = tmp_path / "t", [(1, "a", 1.5), (2, "b", 2.5)]
    write = data.write.format("delta")
    write.save(str(path))
    assert read(path) == both
    with fails("DELTA_PATH_EXISTS", str(path)):
        data.write.format("delta").save(str(path))
    data.write.format("delta").mode("ignore").save(str(path))
    assert read(path) == both
    data.select("x", "id").write.format("delta").mode("append").save(str(path))
    assert read(path) == sorted([*both, (1, None, 1.5), (2, None, 2.5)], key=repr)
    data.write.format("delta").mode("overwrite").save(str(path))
    assert read(path) == both


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_schema_is_enforced(data, read, fails, tmp_path, mode):
    path = tmp_path / "t"
    data.write.format("delta").save(str(path))
    with fails("DELTA_METADATA_MISMATCH", "n (int) is not a column", "mergeSchema"):
        data.withColumn("n", F.lit(1)).write.format("delta").mode(mode).save(str(path))
    with fails("INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "`id`", state="KD000"):
        data.withColumn("id", F.lit("q")).write.format("delta").mode(mode).save(str(path))
    # By name a row is appended as INSERT does it; to overwrite all of a table asks for its schema.
    refused = (
        ("CAST_INVALID_INPUT", "'q'", "22018")
        if mode == "append"
        else (
            "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST",
            "`id`",
            "KD000",
        )
    )
    with fails(*refused[:2], state=refused[2]):
        data.withColumn("id", F.lit("q")).write.format("delta").mode(mode).saveAsTable(f"delta.`{path}`")
    assert len(read(path)) == 2


def test_merge_schema(spark, data, read, fails, settings, tmp_path):
    path = tmp_path / "t"
    data.select("id").write.format("delta").save(str(path))
    data.write.format("delta").mode("append").option("mergeSchema", True).save(str(path))
    assert read(path) == sorted([(1, None, None), (2, None, None), (1, "a", 1.5), (2, "b", 2.5)], key=repr)
    assert all(field.nullable for field in spark.read.format("delta").load(str(path)).schema)
    with settings({"spark.databricks.delta.schema.autoMerge.enabled": "true"}):
        data.withColumn("auto", F.lit(7)).write.format("delta").mode("overwrite").save(str(path))
        with fails("DELTA_METADATA_MISMATCH", "other"):
            data.withColumn("other", F.lit(7)).write.format("delta").mode("append").option("mergeSchema", False).save(
                str(path)
            )
    assert read(path) == [(1, "a", 1.5, 7), (2, "b", 2.5, 7)]
    with fails("INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "id", state="KD000"):
        data.withColumn("id", F.lit("q")).write.format("delta").mode("append").option("mergeSchema", True).save(
            str(path)
        )


def test_merge_nested(spark, read, fails, tmp_path):
    path = tmp_path / "t"
    old = "id INT, st STRUCT<a: INT, b: STRING>, ar ARRAY<STRUCT<q: INT>>, m MAP<STRING, STRUCT<z: INT>>"
    new = (
        "id INT, st STRUCT<c: STRING, a: INT>, ar ARRAY<STRUCT<q: INT, r: INT>>, m MAP<STRING, STRUCT<z: INT, y: INT>>"
    )
    spark.createDataFrame([(1, (1, "a"), [(1,)], {"k": (1,)})], old).write.format("delta").save(str(path))
    more = spark.createDataFrame([(2, ("n", 2), [(5, 6)], {"k": (1, 2)})], new)
    with fails("DELTA_METADATA_MISMATCH", "st.c (string)", "ar.element.r (int)", "m.value.y (int)"):
        more.write.format("delta").mode("append").save(str(path))
    more.write.format("delta").mode("append").option("mergeSchema", True).save(str(path))
    assert read(path) == [
        (1, (1, "a", None), [(1, None)], {"k": (1, None)}),
        (2, (2, None, "n"), [(5, 6)], {"k": (1, 2)}),
    ]


def test_overwrite_schema(spark, data, read, fails, tmp_path):
    path = tmp_path / "t"
    data.write.format("delta").save(str(path))
    data.select("id", F.lit("k").alias("p")).write.format("delta").mode("overwrite").option(
        "overwriteSchema", True
    ).partitionBy("p").save(str(path))
    table = spark.read.format("delta").load(str(path))
    assert table.schema.simpleString() == "struct<id:int,p:string>"
    assert all(field.nullable for field in table.schema)
    assert spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first().partitionColumns == ["p"]
    with fails("DELTA_METADATA_MISMATCH", "(id)", "(p)"):
        table.write.format("delta").mode("append").partitionBy("id").save(str(path))
    with fails("DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE"):
        data.write.format("delta").mode("overwrite").option("overwriteSchema", True).option(
            "partitionOverwriteMode", "dynamic"
        ).save(str(path))
    assert read(path) == [(1, "k"), (2, "k")]


KEPT = {
    "delta.constraints.small": "id < 100",
    "delta.enableChangeDataFeed": "true",
    "delta.columnMapping.mode": "name",
    "delta.enableRowTracking": "true",
    "delta.logRetentionDuration": "interval 60 days",
    "mine": "1",
}


WAYS = ["save", "saveAsTable", "writeTo"]


@pytest.fixture
def overwrite_schema(spark):
    def run(frame, table, way):
        if way == "writeTo":
            frame.writeTo(table).option("overwriteSchema", True).overwrite(F.lit(True))
            return
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", True)
        if way == "save":
            writer.save(spark.sql(f"DESCRIBE DETAIL {table}").first().location)
        else:
            writer.saveAsTable(table)

    return run


@pytest.mark.parametrize("way", WAYS)
def test_overwrite_schema_keeps_all_but_the_columns(spark, data, fails, settings, database, overwrite_schema, way):
    """What was set for the table holds for the rows to come, whoever brings them and whatever sessions have by
    default.
    """
    said = ", ".join(f"'{name}' = '{value}'" for name, value in KEPT.items() if "constraints" not in name)
    spark.sql(f"CREATE TABLE t (id INT, s STRING) USING delta COMMENT 'ours' TBLPROPERTIES ({said})")
    spark.sql("ALTER TABLE t ADD CONSTRAINT small CHECK (id < 100)")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    spark.sql("INSERT INTO t VALUES (1, 'a')")

    def facts():
        detail = spark.sql("DESCRIBE DETAIL t").first()
        numbers = ("delta.columnMapping.maxColumnId",)
        kept = {name: value for name, value in detail.properties.items() if name not in numbers}
        return kept, detail.description, detail.id, detail.createdAt, set(detail.tableFeatures)

    before = facts()
    assert before[0].items() >= KEPT.items()

    def overwrite(frame):
        overwrite_schema(frame, "t", way)

    with settings({"spark.databricks.delta.properties.defaults.appendOnly": "true"}):
        overwrite(data.select("id", "x"))
    assert facts() == before
    assert spark.table("t").columns == (["id", "x"] if way != "writeTo" else spark.table("t").columns)
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "small"):
        overwrite(data.selectExpr("id + 100 AS id", "x"))
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "small"):
        spark.sql("INSERT INTO t (id) VALUES (100)")
    spark.sql("INSERT INTO t (id) VALUES (50)")
    changes = spark.sql("SELECT _change_type, id FROM table_changes('t', 5, 5)").collect()
    assert [tuple(row) for row in changes] == [("insert", 50)]


@pytest.mark.parametrize(("way", "mode"), [("save", "name"), ("saveAsTable", "id"), ("writeTo", "name")])
def test_overwrite_schema_does_not_end_feeds_of_the_same_columns(
    spark, rows, fails, database, overwrite_schema, tmp_path, way, mode
):
    spark.sql(
        "CREATE TABLE t (id INT, st STRUCT<a: INT>) USING delta "
        f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}', 'delta.enableChangeDataFeed' = 'true')"
    )

    def streamed():
        stream = spark.readStream.option("readChangeFeed", True).option("startingVersion", 0).table("t")
        options = {"checkpointLocation": f"{tmp_path}/c"}
        writer = stream.select("_change_type", "id", "st.a").writeStream.format("delta").options(**options)
        writer.trigger(availableNow=True).toTable("seen").awaitTermination()
        return rows("SELECT * FROM seen", ordered=False)

    spark.sql("INSERT INTO t SELECT 1, struct(1 AS a)")
    first = streamed()
    for value in (2, 3):
        overwrite_schema(spark.sql(f"SELECT {value} AS id, struct({value} AS a) AS st"), "t", way)
    expected = [("insert", 1, 1), ("delete", 1, 1), ("insert", 2, 2), ("delete", 2, 2), ("insert", 3, 3)]
    assert first == expected[:1]
    assert sorted(streamed()) == sorted(expected)
    changes = "SELECT _change_type, id, st.a FROM table_changes('t', 0)"
    assert sorted(rows(changes, ordered=False)) == sorted(expected)
    overwrite_schema(spark.sql("SELECT 4 AS id, struct('x' AS a, 5 AS b) AS st, 6 AS n"), "t", way)
    assert rows("SELECT * FROM t") == [(4, ("x", 5), 6)]
    with fails("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE", "st.a"):
        rows(changes)


@pytest.mark.parametrize("way", WAYS)
def test_overwrite_schema_and_what_names_columns_that_go(spark, fails, database, overwrite_schema, way):
    """A list of columns is cut short; a constraint is not given up in silence."""
    spark.sql(
        "CREATE TABLE t (id INT, v INT, k INT, st STRUCT<a: INT, b: INT>) USING delta "
        "TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'v,id,k,st.a,st.b')"
    )
    spark.sql("ALTER TABLE t ADD CONSTRAINT small CHECK (id < 100 AND st.a < 100)")

    def properties():
        return spark.sql("DESCRIBE DETAIL t").first().properties

    before = properties()
    for lost, query in (("id", "1 AS v"), ("st.a", "1 AS id, struct(1 AS b) AS st"), ("st", "1 AS id")):
        with fails("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", f"column {lost} of", "small", "DROP CONSTRAINT"):
            overwrite_schema(spark.sql(f"SELECT {query}"), "t", way)
    assert properties() == before
    overwrite_schema(spark.sql("SELECT 1 AS ID, array(1) AS k, struct(1 AS a) AS st"), "t", way)
    assert properties() == {**before, "delta.dataSkippingStatsColumns": "id,st.a"}
    spark.sql("ALTER TABLE t DROP CONSTRAINT small")
    overwrite_schema(spark.sql("SELECT array(1) AS id"), "t", way)
    assert "delta.dataSkippingStatsColumns" not in properties()


def test_overwrite_schema_partitions_by_a_column_with_statistics(spark, fails, database):
    spark.sql("CREATE TABLE t (id INT, p INT) USING delta TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'id,p')")
    writer = spark.sql("SELECT 1 AS id, 2 AS p").write.format("delta").mode("overwrite").partitionBy("p")
    writer.option("overwriteSchema", True).saveAsTable("t")
    detail = spark.sql("DESCRIBE DETAIL t").first()
    assert (detail.partitionColumns, detail.properties["delta.dataSkippingStatsColumns"]) == (["p"], "id")


def test_replace_where_and_dynamic(data, read, fails, tmp_path):
    path = tmp_path / "t"
    data.write.format("delta").partitionBy("s").save(str(path))

    def overwrite(frame, **options):
        frame.write.format("delta").mode("overwrite").options(**options).save(str(path))

    overwrite(data.where("id = 1").withColumn("id", F.lit(10)), replaceWhere="s = 'a'")
    assert read(path) == [(10, "a", 1.5), (2, "b", 2.5)]
    overwrite(data.where("id = 2").withColumn("id", F.lit(20)), replaceWhere="x > 2")
    assert read(path) == [(10, "a", 1.5), (20, "b", 2.5)]
    overwrite(data.where("id = 1").withColumn("id", F.lit(30)), partitionOverwriteMode="dynamic")
    assert read(path) == [(20, "b", 2.5), (30, "a", 1.5)]
    with fails("DELTA_REPLACE_WHERE_MISMATCH", "s : b"):
        overwrite(data, replaceWhere="s = 'a'")
    with fails("DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE"):
        overwrite(data, replaceWhere="s = 'a'", partitionOverwriteMode="dynamic")
    with fails("DELTA_ILLEGAL_OPTION", "bogus"):
        overwrite(data, partitionOverwriteMode="bogus")
    with fails("DELTA_REPLACE_WHERE_IN_APPEND"):
        data.write.format("delta").mode("append").option("replaceWhere", "s = 'a'").save(str(path))
    assert read(path) == [(20, "b", 2.5), (30, "a", 1.5)]


def test_save_as_table(spark, data, read, fails, database):
    both = [(1, "a", 1.5), (2, "b", 2.5)]
    data.write.format("delta").partitionBy("s").saveAsTable("t")
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS", state="42P07"):
        data.write.format("delta").saveAsTable("t")
    data.write.format("delta").mode("ignore").saveAsTable("t")
    data.select("x", "id", "s").write.format("delta").mode("append").saveAsTable("t")
    assert read("t") == sorted([*both, *both], key=repr)
    data.write.format("delta").mode("overwrite").saveAsTable("t")
    assert read("t") == both
    with fails("DELTA_METADATA_MISMATCH", "new"):
        data.select("id", F.lit("k").alias("new")).write.format("delta").mode("overwrite").saveAsTable("t")
    data.where("id = 1").write.format("delta").mode("overwrite").option("replaceWhere", "s = 'a'").saveAsTable("t")
    data.where("id = 2").withColumn("id", F.lit(9)).write.format("delta").mode("overwrite").option(
        "partitionOverwriteMode", "dynamic"
    ).saveAsTable("t")
    assert read("t") == [(1, "a", 1.5), (9, "b", 2.5)]
    data.select("id").write.format("delta").mode("overwrite").option("overwriteSchema", True).saveAsTable("t")
    assert read("t") == [(1,), (2,)]
    assert len(spark.sql("DESCRIBE HISTORY t").collect()) == 6


def test_insert_into(data, read, fails, settings, database):
    both = [(1, "a", 1.5), (2, "b", 2.5)]
    data.write.format("delta").partitionBy("s").saveAsTable("t")
    data.write.insertInto("t")
    assert read("t") == sorted([*both, *both], key=repr)
    data.write.insertInto("t", overwrite=True)
    assert read("t") == both
    data.where("id = 1").write.format("delta").mode("overwrite").option("replaceWhere", "s = 'a'").insertInto("t")
    with settings({"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        data.where("id = 1").withColumn("id", F.lit(3)).write.mode("overwrite").insertInto("t")
    assert read("t") == [(2, "b", 2.5), (3, "a", 1.5)]
    with fails("INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS", state="21S01"):
        data.withColumn("n", F.lit(1)).write.insertInto("t")
    data.withColumn("n", F.lit(1)).write.format("delta").option("mergeSchema", True).insertInto("t")
    assert (1, "a", 1.5, 1) in read("t")


def test_write_to(data, read, fails, database):
    data.writeTo("t").using("delta").partitionedBy("s").tableProperty("delta.appendOnly", "false").create()
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS", state="42P07"):
        data.writeTo("t").using("delta").create()
    data.writeTo("t").append()
    assert len(read("t")) == 4
    data.where("s = 'a'").withColumn("id", F.lit(5)).writeTo("t").overwrite(F.col("s") == "a")
    with fails("DELTA_REPLACE_WHERE_MISMATCH"):
        data.writeTo("t").overwrite(F.col("s") == "a")
    data.where("s = 'b'").withColumn("id", F.lit(6)).writeTo("t").overwritePartitions()
    assert read("t") == [(5, "a", 1.5), (6, "b", 2.5)]
    data.withColumn("n", F.lit(1)).writeTo("t").option("mergeSchema", "true").append()
    assert len(read("t")[0]) == 4
    data.select("id").writeTo("t").using("delta").replace()
    assert read("t") == [(1,), (2,)]
    data.writeTo("t").using("delta").createOrReplace()
    data.writeTo("u").using("delta").createOrReplace()
    assert read("t") == read("u") == [(1, "a", 1.5), (2, "b", 2.5)]


def test_idempotent_writes(spark, data, read, fails, settings, tmp_path):
    path = tmp_path / "t"
    data.write.format("delta").save(str(path))

    def append(**options):
        data.write.format("delta").mode("append").options(**options).save(str(path))

    append(txnAppId="app", txnVersion=1)
    append(txnAppId="app", txnVersion=1)
    append(txnAppId="app", txnVersion=0)
    assert len(read(path)) == 4
    append(txnAppId="app", txnVersion=2)
    append(txnAppId="other", txnVersion=1)
    assert len(read(path)) == 8
    with settings({"spark.databricks.delta.write.txnAppId": "app", "spark.databricks.delta.write.txnVersion": "2"}):
        append()
    assert len(read(path)) == 8
    with fails("DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS", "txnVersion"):
        append(txnAppId="app")


def test_statements_that_write_no_rows_leave_the_version_to_those_that_do(spark, read, settings, tmp_path):
    table = f"delta.`{tmp_path}/t`"
    with settings({"spark.databricks.delta.write.txnAppId": "app", "spark.databricks.delta.write.txnVersion": "1"}):
        spark.sql(f"CREATE TABLE {table} (a INT) USING delta")
        spark.sql(f"ALTER TABLE {table} ADD COLUMN b INT")
        spark.sql(f"INSERT INTO {table} VALUES (1, 1)")
        spark.sql(f"DELETE FROM {table}")
        assert len(read(tmp_path / "t")) == 1


def test_commit_options(spark, data, settings, log, tmp_path):
    path = tmp_path / "t"
    data.write.format("delta").option("userMetadata", "from the option").save(str(path))
    with settings({"spark.databricks.delta.commitInfo.userMetadata": "from the session"}):
        data.write.format("delta").mode("append").save(str(path))
    data.coalesce(1).write.format("delta").mode("overwrite").option("dataChange", "false").save(str(path))
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    assert [row.userMetadata for row in history] == [None, "from the session", "from the option"]
    changes = [a[kind]["dataChange"] for a in log(path, 2) for kind in ("add", "remove") if kind in a]
    assert changes
    assert not any(changes)


def test_max_records_per_file(spark, log, tmp_path):
    path = tmp_path / "t"
    spark.range(0, 100, 1, 1).write.format("delta").option("maxRecordsPerFile", 30).save(str(path))
    import json

    sizes = [json.loads(a["add"]["stats"])["numRecords"] for a in log(path, 0) if "add" in a]
    assert sorted(sizes) == [10, 30, 30, 30]


def test_overwriting_what_is_read(spark, data, read, tmp_path):
    path = tmp_path / "t"
    data.write.format("delta").save(str(path))
    spark.read.format("delta").load(str(path)).where("id = 1").write.format("delta").mode("overwrite").save(str(path))
    assert read(path) == [(1, "a", 1.5)]


def test_saves_of_variants_and_of_types_without_a_place(spark, rows, fails, tmp_path):
    path = tmp_path / "t"
    frame = spark.sql("SELECT parse_json('{\"a\": 1}') AS v, named_struct('x', array(parse_json('2'))) AS s")
    for mode in ("errorifexists", "append", "overwrite", "append"):
        frame.write.format("delta").mode(mode).save(str(path))
    assert rows(f"SELECT v:a::INT, s.x[0]::INT FROM delta.`{path}`") == [(1, 2), (1, 2)]
    interval = spark.sql("SELECT INTERVAL '1' YEAR AS v").write.format("delta")
    with fails("INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "INTERVAL YEAR", state="KD000"):
        interval.mode("append").save(str(path))


def test_options_without_a_value_mean_nothing(spark, data, read, database, tmp_path):
    path = tmp_path / "t"
    for mode in ("overwrite", "append"):
        data.write.format("delta").mode(mode).option("userMetadata", None).option("mergeSchema", None).save(str(path))
    data.write.format("delta").option("overwriteSchema", None).mode("overwrite").saveAsTable("t")
    data.writeTo("t").option("userMetadata", None).append()
    assert read(path) == sorted(spark.table("t").collect())
    loaded = spark.read.format("delta").option("readChangeFeed", None).option("versionAsOf", None).load(str(path))
    assert loaded.count() == 2 * data.count()


class Reading(UserDefinedType):
    """A type of a user whose stored form declares a field NOT NULL, as vectors of Spark's ML have it."""

    @classmethod
    def sqlType(cls):
        values = ArrayType(DoubleType(), containsNull=False)
        return StructType([StructField("kind", ByteType(), nullable=False), StructField("values", values)])

    @classmethod
    def module(cls):
        return "spark.test_writes_dataframe"

    def serialize(self, obj):
        return (1, [float(value) for value in obj])

    def deserialize(self, datum):
        return list(datum[1])


class Values(list):
    __UDT__ = Reading()


def test_types_of_users_are_stored_as_what_they_consist_of(spark, rows, tmp_path):
    """What is null in them is no constraint of the table, whose readers need not have the class."""
    path = tmp_path / "t"
    schema = StructType([StructField("id", IntegerType()), StructField("v", Reading())])
    frame = spark.createDataFrame([(1, Values([1.5])), (2, None)], schema)
    several = frame.selectExpr("id", "v", "array(v) AS a", "map('k', v) AS m")
    for mode in ("errorifexists", "append", "overwrite"):
        several.write.format("delta").mode(mode).save(str(path))
    assert rows(f"SELECT id, v.values, a[0].kind, m['k'].kind FROM delta.`{path}` ORDER BY id") == [
        (1, [1.5], 1, 1),
        (2, None, None, None),
    ]
    assert spark.read.format("delta").load(str(path)).schema["v"].dataType.simpleString() == (
        "struct<kind:tinyint,values:array<double>>"
    )


def test_lengths_that_a_session_keeps_are_declared_not_stored(spark, rows, settings, database, log, tmp_path):
    """`spark.sql.preserveCharVarcharTypeInfo` has queries keep CHAR and VARCHAR, which no table stores."""
    query = "SELECT CAST('a' AS CHAR(3)) AS c, CAST('b' AS VARCHAR(2)) AS v, 1 AS i"
    with settings({"spark.sql.preserveCharVarcharTypeInfo": "true"}):
        spark.sql(f"CREATE TABLE t USING delta AS {query}")
        spark.sql("CREATE TABLE u (c CHAR(3), s STRUCT<x: VARCHAR(2)>) USING delta")
        spark.sql("INSERT INTO u SELECT c, struct(v) FROM t")
        frame = spark.sql(query)
        for mode in ("errorifexists", "append", "overwrite"):
            frame.write.format("delta").mode(mode).save(str(tmp_path / "t"))
        spark.sql("CREATE TABLE evolved USING delta AS SELECT 1 AS i")
        frame.write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable("evolved")
        spark.sql("CREATE TABLE merged USING delta AS SELECT 2 AS i")
        spark.sql(
            f"MERGE WITH SCHEMA EVOLUTION INTO merged USING ({query}) s "
            "ON merged.i = s.i WHEN NOT MATCHED THEN INSERT *"
        )
        with pytest.raises(SparkRuntimeException, match="EXCEED_LIMIT_LENGTH"):
            spark.sql("INSERT INTO u VALUES ('long', NULL)")
    assert rows("SELECT c, v FROM t") == rows(f"SELECT c, v FROM delta.`{tmp_path}/t`") == [("a  ", "b")]
    assert rows("SELECT c, s.x FROM u") == [("a  ", "b")]
    for name in ("evolved", "merged"):
        assert rows(f"SELECT c, v FROM {name} WHERE c IS NOT NULL") == [("a  ", "b")]
    (metadata,) = (action["metaData"] for action in log(tmp_path / "t", 0) if "metaData" in action)
    assert [field["type"] for field in json.loads(metadata["schemaString"])["fields"]] == [
        "string",
        "string",
        "integer",
    ]


def test_parquet_tables_of_a_session_that_keeps_lengths_are_converted(spark, rows, settings, database, log, tmp_path):
    """Their entries in the catalog and the footers of their files name types that no Delta table stores."""
    paths = {name: tmp_path / name for name in "pqr"}
    with settings({"spark.sql.preserveCharVarcharTypeInfo": "true"}):
        for name, path in paths.items():
            spark.sql(
                f"CREATE TABLE {name} (i INT, c CHAR(3), v VARCHAR(2)) USING parquet "
                f"PARTITIONED BY (v) LOCATION '{path}'"
            )
            spark.sql(f"INSERT INTO {name} VALUES (1, 'a', 'b')")
        spark.sql("CREATE TABLE cloned SHALLOW CLONE p")
        spark.sql("CONVERT TO DELTA p")
        spark.sql(f"CONVERT TO DELTA parquet.`{paths['q']}` PARTITIONED BY (v VARCHAR(2))")
        with pytest.raises(SparkRuntimeException, match="EXCEED_LIMIT_LENGTH"):
            spark.sql("INSERT INTO p VALUES (2, 'a', 'long')")
    spark.sql(f"CONVERT TO DELTA parquet.`{paths['r']}` PARTITIONED BY (v STRING)")
    for table in ("p", "cloned", f"delta.`{paths['q']}`", f"delta.`{paths['r']}`"):
        assert rows(f"SELECT i, c, v FROM {table}") == [(1, "a  ", "b")]
    (metadata,) = (action["metaData"] for action in log(paths["p"], 0) if "metaData" in action)
    assert [field["type"] for field in json.loads(metadata["schemaString"])["fields"]] == [
        "integer",
        "string",
        "string",
    ]
