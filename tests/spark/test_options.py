"""Options by each way into a table: a misspelt one stops the statement, and table properties reach the new table."""

import itertools

import pytest

WRONG = {"mergeSchem": "true"}
PROPERTIES = {"DELTA.appendonly": "true", "delta.enableChangeDataFeed": "true"}


@pytest.fixture
def rows(spark):
    return spark.sql("SELECT 1 AS id, 'a' AS name")


@pytest.fixture
def table(spark, rows, tmp_path):
    path = str(tmp_path / "t")
    rows.write.format("delta").save(path)
    return path


def stream(spark, source, target, name, **options):
    reader = spark.readStream.format("delta").load(source)
    writer = reader.writeStream.format("delta").options(**options, checkpointLocation=f"{target}-checkpoint")
    writer = writer.trigger(availableNow=True)
    query = writer.start(target) if name is None else writer.toTable(name)
    query.awaitTermination()


def test_a_misspelt_option_stops_each_read_and_write(spark, rows, table, fails, tmp_path):
    by_path, new = f"delta.`{table}`", str(tmp_path / "new")
    writer = rows.write.format("delta").options(**WRONG)
    reader = spark.read.format("delta").option("versionAsOff", "0")
    statements = {
        "save": lambda: writer.mode("append").save(table),
        "save new": lambda: writer.mode("append").save(new),
        "save as table": lambda: writer.mode("overwrite").saveAsTable(by_path),
        "insert into": lambda: writer.insertInto(by_path),
        "write to": lambda: rows.writeTo(by_path).options(**WRONG).append(),
        "create": lambda: rows.writeTo(f"delta.`{new}`").using("delta").options(**WRONG).create(),
        "upsert": lambda: rows.write.format("delta").mode("append").option("idCol", "id").save(table),
        "load": lambda: reader.load(table),
        "table": lambda: reader.table(by_path).collect(),
        "changes": lambda: spark.read.options(readChangeFeed="true", startingVersio="0").table(by_path).collect(),
        "changes by path": lambda: spark.read.format("delta").option("readChangeFeeds", "true").load(table),
        "stream": lambda: spark.readStream.format("delta").option("maxFilePerTrigger", "1").load(table),
        "stream into": lambda: stream(spark, table, new, None, **WRONG),
        **{
            text: lambda text=text: spark.sql(text.format(by_path)).collect()
            for text in (
                "INSERT INTO {} WITH (idCol = 'name') VALUES (1, 'b')",
                "INSERT INTO {} WITH (quiteOther = 'x') VALUES (1, 'b')",
                "INSERT OVERWRITE {} WITH (partitionOverwriteMod = 'dynamic') VALUES (1, 'b')",
                "INSERT INTO {} WITH (mergeSchem = true) REPLACE USING (id) SELECT 1 AS id, 'b' AS name",
                "SELECT * FROM {} WITH (versionAsOff = 0)",
                "SELECT * FROM {} WITH (quiteOther = 0)",
            )
        },
    }
    for run in statements.values():
        with fails("HEADWATER_UNKNOWN_OPTION"):
            run()
    assert not (tmp_path / "new").exists()
    assert spark.sql(f"DESCRIBE HISTORY {by_path}").count() == 1


def test_options_that_others_know_pass(spark, rows, table):
    others = {"header": "true", "fs.some.key": "1", "parquet.block.size": "1048576", "startingOffsets": "latest"}
    rows.write.format("delta").mode("append").options(**others).save(table)
    assert spark.read.format("delta").options(**others).load(table).count() == 2
    assert spark.read.options(**others, versionAsOf="0").table(f"delta.`{table}`").count() == 1
    assert spark.sql(f"SELECT * FROM delta.`{table}` WITH (fs.some.key = 1, VERSIONASOF = 0)").count() == 1


def test_a_transaction_reads_with_options(spark, table, fails):
    spark.sql("BEGIN TRANSACTION")
    try:
        assert spark.sql(f"SELECT * FROM delta.`{table}` WITH (ignoreMissingFiles = true)").count() == 1
        with fails("HEADWATER_UNKNOWN_OPTION"):
            spark.sql(f"SELECT * FROM delta.`{table}` WITH (ignoreMissingFile = true)").collect()
    finally:
        spark.sql("ROLLBACK")


def test_table_properties_as_options_of_each_way_that_creates(spark, rows, table, database, tmp_path):
    numbers = itertools.count()

    def writer():
        return rows.write.format("delta").options(**PROPERTIES)

    for create in (
        lambda path: writer().save(path),
        lambda path: writer().saveAsTable("saved", path=path),
        lambda path: rows.writeTo(f"delta.`{path}`").using("delta").options(**PROPERTIES).create(),
        lambda path: stream(spark, table, path, None, **PROPERTIES),
        lambda path: stream(spark, table, path, f"delta.`{path}`", **PROPERTIES),
    ):
        path = str(tmp_path / f"new{next(numbers)}")
        create(path)
        found = dict(spark.sql(f"SHOW TBLPROPERTIES delta.`{path}`").collect())
        assert (found["delta.appendOnly"], found["delta.enableChangeDataFeed"]) == ("true", "true")
    writer().mode("append").save(table)
    assert "delta.appendOnly" not in dict(spark.sql(f"SHOW TBLPROPERTIES delta.`{table}`").collect())


def test_not_null_that_cannot_be_enforced_is_left_out(spark, tmp_path, fails):
    create = f"CREATE TABLE delta.`{tmp_path}/n` (a ARRAY<STRUCT<x: INT NOT NULL>>) USING delta"
    with fails("DELTA_NESTED_NOT_NULL_CONSTRAINT"):
        spark.sql(create)
    setting = "spark.databricks.delta.constraints.allowUnenforcedNotNull.enabled"
    spark.conf.set(setting, "true")
    try:
        spark.sql(create)
    finally:
        spark.conf.unset(setting)
    spark.sql(f"INSERT INTO delta.`{tmp_path}/n` SELECT array(named_struct('x', CAST(NULL AS INT)))")
    assert spark.sql(f"SELECT a[0].x FROM delta.`{tmp_path}/n`").collect() == [(None,)]


def test_options_of_a_temporary_view_are_those_of_a_reader(spark, table, fails):
    view = "CREATE OR REPLACE TEMPORARY VIEW v USING delta OPTIONS (path '{}', {} 'x')"
    spark.sql(view.format(table, "header"))
    assert spark.table("v").count() == 1
    with fails("HEADWATER_UNKNOWN_OPTION"):
        spark.sql(view.format(table, "versionAsOff"))
