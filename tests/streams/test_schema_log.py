"""Streams with a schema log: they end at each change of the definition, and read on with it once it is let through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.streams.unblocking import java_hash
from support.running_streams import ends

MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true'"
LET_THROUGH = "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
EVOLVED = "DELTA_STREAMING_METADATA_EVOLUTION"


def tracked(stream, **options):
    made = stream(**options)
    made.options["schemaTrackingLocation"] = f"{made.home}/checkpoint/schemas"
    return made


def entries(reader):
    files = sorted(Path(f"{reader.home}/checkpoint/schemas").glob("_schema_log_*/[0-9]*"), key=lambda f: int(f.name))
    return [json.loads(file.read_text().splitlines()[1]) for file in files]


def test_java_hash():
    assert [java_hash(text) for text in ("", "a", "file:/tmp/c/sources/0")] == [0, 97, -1232935388]


def test_renames_drops_and_wider_types(spark, path, stream):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, a STRING, b STRING) USING delta TBLPROPERTIES ({MAPPED})")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a1', 'b1')")
    reader = tracked(stream)
    assert reader.run(path) == [[(1, "a1", "b1")]]
    assert [entry["deltaCommitVersion"] for entry in entries(reader)] == [1]

    spark.sql(f"INSERT INTO {table} VALUES (2, 'a2', 'b2')")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN a TO c")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'c3', 'b3')")
    with ends(EVOLVED):
        reader.run(path)
    assert reader.rows()[-1] == [(2, "a2", "b2")]
    with ends(LET_THROUGH, "a was renamed to c", "allowSourceColumnRename = 3"):
        reader.run(path)
    reader.options["allowSourceColumnRename"] = "3"
    assert reader.run(path)[-1] == [(3, "c3", "b3")]

    spark.sql(f"ALTER TABLE {table} DROP COLUMN b")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    spark.sql(f"INSERT INTO {table} VALUES (4, 'c4')")
    with ends(EVOLVED):
        reader.run(path)
    # The two follow each other at once, so they are let through together.
    with ends(LET_THROUGH, "b was dropped", "id was int and is bigint", "allowSourceColumnTypeChange"):
        reader.run(path)
    assert [entry["deltaCommitVersion"] for entry in entries(reader)] == [1, 3, 5, 6]
    assert entries(reader)[-1]["previousMetadataSeqNum"] == 1
    checkpoint = entries(reader)[-1]["sourceMetadataPath"]
    setting = f"spark.databricks.delta.streaming.allowSourceColumnDrop.ckpt_{java_hash(checkpoint)}"
    spark.conf.set(setting, "always")
    reader.options["allowSourceColumnTypeChange"] = "always"
    try:
        assert reader.run(path)[-1] == [(4, "c4")]
    finally:
        spark.conf.unset(setting)


def test_a_new_column_and_a_property(spark, path, stream):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta")
    spark.sql(f"INSERT INTO {table} VALUES (0)")
    reader = tracked(stream)
    reader.run(path)
    spark.sql(f"ALTER TABLE {table} ADD COLUMN n STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'n1')")
    with ends(EVOLVED):
        reader.run(path)
    assert reader.run(path)[-1] == [(1, "n1")]  # nothing to let through
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with ends(EVOLVED):
        reader.run(path)
    spark.sql(f"COMMENT ON TABLE {table} IS 'words'")
    spark.sql(f"INSERT INTO {table} VALUES (2, 'n2')")
    assert reader.run(path)[-1] == [(2, "n2")]


def test_from_before_a_change(spark, path, stream):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, a STRING) USING delta TBLPROPERTIES ({MAPPED})")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a1')")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN a TO c")
    spark.sql(f"INSERT INTO {table} VALUES (2, 'c2')")
    plain = stream(startingVersion=1)
    with ends("DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"):
        plain.run(path)
    reader = tracked(stream, startingVersion=1, allowSourceColumnRename="always")
    with ends(EVOLVED):  # the table is now read as it was then
        reader.run(path)
    with ends(EVOLVED):
        reader.run(path)
    reader.run(path)
    assert sum(reader.rows(), []) == [(1, "a1"), (2, "c2")]


@pytest.mark.parametrize(
    "alters",
    [["RENAME COLUMN a TO c"], ["DROP COLUMN a"], ["DROP COLUMN a", "ADD COLUMN a STRING"]],
    ids=["rename", "drop", "drop and add"],
)
@pytest.mark.parametrize("written_between", [False, True])
def test_without_a_schema_log_no_stream_goes_on_under_other_names(spark, path, stream, alters, written_between):
    """Even if it had read everything from before the change: its sink has the column, and would get no values of it."""
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, a STRING, b STRING) USING delta TBLPROPERTIES ({MAPPED})")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a1', 'b1')")
    reader = stream()
    assert reader.run(path) == [[(1, "a1", "b1")]]
    if written_between:
        spark.sql(f"INSERT INTO {table} VALUES (2, 'a2', 'b2')")
    for alter in alters:
        spark.sql(f"ALTER TABLE {table} {alter}")
    spark.sql(f"INSERT INTO {table} (id, b) VALUES (3, 'b3')")
    for _ in range(2):
        with ends("DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"):
            reader.run(path)
    new = stream(startingVersion=spark.sql(f"DESCRIBE HISTORY {table}").first().version)
    assert len(new.run(path)) == 1


def test_a_stream_that_has_read_all_goes_on_with_more_columns_and_wider_types(spark, path, stream):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, a STRING) USING delta TBLPROPERTIES ({MAPPED})")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a1')")
    reader = stream()
    reader.run(path)
    spark.sql(f"ALTER TABLE {table} ADD COLUMN n INT")
    spark.sql(f"INSERT INTO {table} VALUES (2, 'a2', 2)")
    assert reader.run(path)[-1] == [(2, "a2", 2)]
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'a3', 3)")
    assert reader.run(path)[-1] == [(3, "a3", 3)]


def test_places_that_are_refused(spark, path, tmp_path, stream):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    outside = stream(schemaTrackingLocation=str(tmp_path / "elsewhere"))
    with ends("DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT"):
        outside.run(path)
    reader = tracked(stream)
    reader.run(path)
    (file,) = Path(f"{reader.home}/checkpoint/schemas").glob("_schema_log_*/0")
    whole = file.read_text()
    for damaged in ("", "v1\n{", "v2\n{}", "v1\n{}"):
        file.write_text(damaged)
        with pytest.raises(Exception, match="DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED"):
            reader.run(path)
    file.write_text(whole.replace("sources/0", "sources/1"))
    with ends("DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT"):
        reader.run(path)


def test_a_schema_log_for_a_stream_that_has_read_everything(spark, path, stream):
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta")
    spark.sql(f"INSERT INTO {table} VALUES (1)")
    for options in ({}, {"startingVersion": "latest"}):
        reader = stream(**options)
        reader.run(path)
        reader.options["schemaTrackingLocation"] = f"{reader.home}/checkpoint/schemas"
        reader.run(path)
        spark.sql(f"INSERT INTO {table} VALUES (2)")
        assert reader.run(path)[-1] == [(2,)]
        assert len(entries(reader)) == 1
