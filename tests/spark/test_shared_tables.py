"""Tables that other engines wrote, read through Spark: rows, schema and a hash over all values, against the reference.

The tables lie outside of the repository: in ``HEADWATER_SHARED``, or in ``shared`` beside it.
"""

from __future__ import annotations

import json

import pytest

from support.paths import SHARED

TABLES = SHARED / "tables"
_FILE = TABLES / "expected.json"
EXPECTED = json.loads(_FILE.read_text()) if _FILE.is_file() else {}

if not EXPECTED:
    pytest.skip(f"the shared tables are not at {TABLES}", allow_module_level=True)

#: What nobody can read: tables whose data files are missing.
MISSING_FILES = [
    "checkpoint_with_partitions",
    "checkpoints",
    "checkpoints_vacuumed",
    "latest_not_checkpointed",
    "spark-variant-stable-feature-checkpoint",
    "table-with-domain-metadata",
    "with_checkpoint_no_last_checkpoint",
]
#: Read here by both of Spark's Parquet readers: those whose rows a deletion vector or column mapping decides.
BY_ROW = [
    "cdf-table-with-cdc-and-dvs",
    "table-with-dv-small",
    "table_with_column_mapping",
    "table_with_partitioning_mapping",
    "table_with_edge_timestamps",
]


def observed(spark, name):
    """Rows, schema and hash, as ``expected.json`` has them; the hash is a sum, so order does not count."""
    frame = spark.read.format("delta").load(str(TABLES / name))
    pattern = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
    columns = [
        f"to_json(struct({quote(column)} AS c), map('timestampFormat', \"{pattern}\"))" for column in frame.columns
    ]
    row = f"pmod(xxhash64({', '.join(columns)}), 1099511627776)"
    found = frame.selectExpr("count(*) AS rows", f"sum(CAST({row} AS DECIMAL(38, 0))) AS hash").first()
    return {"rows": found["rows"], "hash": str(found["hash"]), "schema": frame.schema.simpleString()}


def quote(column):
    return "`" + column.replace("`", "``") + "`"


#: More than a million rows.
LARGE = "COVID-19_NYT"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow, pytest.mark.soak] if name == LARGE else [])
        for name, entry in sorted(EXPECTED.items())
        if "error" not in entry
    ],
)
def test_rows_schema_and_values(spark, name):
    assert observed(spark, name) == EXPECTED[name]


@pytest.mark.parametrize("name", BY_ROW)
def test_rows_schema_and_values_row_by_row(spark, settings, name):
    with settings({"spark.sql.parquet.enableVectorizedReader": "false"}):
        assert observed(spark, name) == EXPECTED[name]


@pytest.mark.parametrize("name", MISSING_FILES)
def test_missing_data_files_are_named(spark, fails, name):
    with fails("DELTA_FILE_NOT_FOUND_DETAILED", f"{TABLES / name}/", "version"):
        spark.read.format("delta").load(str(TABLES / name)).write.format("noop").mode("overwrite").save()


def test_every_table_that_cannot_be_read_is_looked_at():
    refused = {name for name, entry in EXPECTED.items() if "error" in entry}
    assert refused == {*MISSING_FILES, "simple_table_features", "cdc_ict_table"}


def test_an_unknown_reader_feature_is_refused_by_name(spark, fails):
    with fails("DELTA_UNSUPPORTED_FEATURES_FOR_READ", "blahabl"):
        spark.read.format("delta").load(str(TABLES / "simple_table_features"))


# The usual run has every fourth; it reads the rows of all.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if number % 4 == 0 else pytest.mark.soak)
        for number, name in enumerate(sorted({*EXPECTED} - {"simple_table_features"}))
    ],
)
def test_history_and_detail_of_every_table(spark, name):
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{TABLES / name}`").first()
    assert detail["format"] == "delta"
    history = spark.sql(f"DESCRIBE HISTORY delta.`{TABLES / name}`").collect()
    versions = [entry["version"] for entry in history]
    assert versions == sorted(versions, reverse=True)


def test_time_travel_over_a_table_of_another_engine(spark):
    path = str(TABLES / "delta-0.8.0")
    counts = [spark.read.format("delta").option("versionAsOf", version).load(path).count() for version in (0, 1)]
    assert counts == [3, 4] or len(set(counts)) == 2
