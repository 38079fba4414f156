"""Filters find the rows with NaN in files of every writer, whatever the writer's bounds say of NaN.

Spark orders NaN above all other values. Arrow and others leave it out of the bounds in a footer and in a page index, by
which Parquet's reader skips rows. The expected rows are those for which the same condition, computed as a column, is
true: then nothing is pushed down.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SCHEMA = pa.schema(
    [("id", pa.int64()), ("x", pa.float64()), ("y", pa.float32()), ("s", pa.struct([("z", pa.float64())]))]
)
FIELDS = [
    {"name": "id", "type": "long", "nullable": True, "metadata": {}},
    {"name": "x", "type": "double", "nullable": True, "metadata": {}},
    {"name": "y", "type": "float", "nullable": True, "metadata": {}},
    {
        "name": "s",
        "type": {"type": "struct", "fields": [{"name": "z", "type": "double", "nullable": True, "metadata": {}}]},
        "nullable": True,
        "metadata": {},
    },
]
#: The values of each row group: NaN in one row, in all, in none, and beside one value only.
GROUPS = [[1.0, 5.0, math.nan], [1.0, 1.0, math.nan], [math.nan], [1.0, 5.0], [-math.inf, None, math.nan], [None]]
#: With bounds for row groups only, and with bounds for pages of a row each.
WRITERS: list[dict[str, Any]] = [{}, {"write_page_index": True, "data_page_size": 1, "write_batch_size": 1}]
LITERALS = ["1", "5", "10", "'NaN'", "'Infinity'"]
COLUMNS = {"x": "DOUBLE", "y": "FLOAT", "s.z": "DOUBLE"}


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """A table of Arrow's files."""
    path = tmp_path_factory.mktemp("nan") / "t"
    (path / "_delta_log").mkdir(parents=True)
    schema = json.dumps({"type": "struct", "fields": FIELDS})
    metadata = {"id": "of-arrow", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**metadata, "partitionColumns": [], "configuration": {}}},
    ]
    for n, options in enumerate(WRITERS):
        numbers = count(n * 100)
        with pq.ParquetWriter(path / f"{n}.parquet", SCHEMA, **options) as writer:
            for values in GROUPS:
                rows = [{"id": next(numbers), "x": v, "y": v, "s": {"z": v}} for v in values]
                writer.write_table(pa.Table.from_pylist(rows, SCHEMA))
        size = (path / f"{n}.parquet").stat().st_size
        add = {"path": f"{n}.parquet", "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
        actions.append({"add": add})
    (path / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return path


def conditions() -> Iterator[str]:
    for column, kind in COLUMNS.items():
        values = [f"CAST({text} AS {kind})" for text in LITERALS]
        for operator, value in product(("=", "<=>", "<", "<=", ">", ">=", "!="), values):
            yield f"{column} {operator} {value}"
            yield f"NOT ({column} {operator} {value})"
        for first, last in product(values, values):
            yield f"{column} IN ({first}, {last})"
            yield f"{column} NOT IN ({first}, {last})"
            yield f"{column} BETWEEN {first} AND {last}"
            yield f"{column} > {first} OR id < 2 AND {column} = {last}"
            yield f"NOT ({column} < {first} OR {column} = {last})"
        yield f"isnan({column})"
        yield f"{column} IS NOT NULL"


@pytest.mark.random
@pytest.mark.parametrize("vectorized", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_filters_find_the_rows_with_nan(spark, rows, settings, table, vectorized):
    every = list(conditions())
    random = Random(os.environ.get("HEADWATER_TEST_SEED", "NaN"))
    asked = random.sample(every, min(len(every), int(os.environ.get("HEADWATER_TEST_EXAMPLES", "30"))))
    given = {
        "spark.sql.parquet.enableVectorizedReader": str(vectorized).lower(),
        "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "parquet,delta",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.minPartitionNum": "1",
    }
    with settings(given):
        expected: list[list[int]] = [[] for _ in asked]
        for number, *met in rows(f"SELECT id, {', '.join(asked)} FROM delta.`{table}`"):
            for n, is_met in enumerate(met):
                if is_met:
                    expected[n].append(number)
        found: list[list[int]] = [[] for _ in asked]
        queries = (f"SELECT {n}, id FROM delta.`{table}` WHERE {condition}" for n, condition in enumerate(asked))
        for n, number in rows(" UNION ALL ".join(queries)):
            found[n].append(number)
    wrong = [
        f"{condition}: {sorted(got)}, not {sorted(want)}"
        for condition, got, want in zip(asked, found, expected, strict=True)
        if sorted(got) != sorted(want)
    ]
    assert not wrong, "\n".join(wrong)


def test_bounds_of_sparks_files_still_skip_rows(spark, database):
    """Whether NaN is there, Parquet's own writer shows."""
    spark.sql("CREATE TABLE t (x DOUBLE) USING delta")
    spark.sql("INSERT INTO t SELECT /*+ COALESCE(1) */ CAST(id AS DOUBLE) FROM range(100)")
    query = spark.sql("SELECT x FROM t WHERE x > 1000")
    assert query.collect() == []
    scan = query._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.metrics().apply("numOutputRows").value() == 0
