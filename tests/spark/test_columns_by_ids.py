"""Tables whose files are read by the ids of columns: what files call a column does not matter."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.commits import write_commit

pytestmark = pytest.mark.spark

_KINDS = {"a": pa.int64(), "b": pa.int64(), "c": pa.int64(), "d": pa.float64()}
_FILTERS = [
    *(f"{name} IS NULL" for name in _KINDS),
    *(f"{name} IS NOT NULL" for name in _KINDS),
    *("a = 3", "b > 2", "a IN (1, 4)", "NOT b = 2", "a <=> NULL", "c = 2", "d >= 1.5", "d = 'NaN'"),
    *("a IS NULL AND c IS NOT NULL", "a = 1 OR d IS NULL", "b < 3 AND d > 0"),
]


def _values(draw: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    def value() -> Any:
        number = draw.randrange(6)
        if number == 5:
            return None
        return draw.choice([number / 2, float("nan")]) if pa.types.is_floating(kind) else number

    return pa.array([value() for _ in range(rows)], kind)


@pytest.mark.random
@pytest.mark.parametrize("reader", ["vectorized", "of rows"])
def test_a_filter_is_about_the_column_with_the_id(spark, rows, settings, tmp_path: Path, reader: str) -> None:
    """Files call their columns as the table calls others; they lack some of its columns, and have others. Spark's
    vectorized reader refuses a name that is that of a column of another type.
    """
    draw, path = random.Random(7), tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (a BIGINT, b BIGINT, c BIGINT, d DOUBLE) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'id')"
    )
    log = [json.loads(line) for line in (path / f"_delta_log/{0:020d}.json").read_text().splitlines()]
    (schema,) = (json.loads(each["metaData"]["schemaString"]) for each in log if "metaData" in each)
    ids = {field["name"]: field["metadata"]["delta.columnMapping.id"] for field in schema["fields"]}
    physical = [field["metadata"]["delta.columnMapping.physicalName"] for field in schema["fields"]]
    twin: list[pa.Table] = []
    while (number := len(twin)) < 8:
        own = [*draw.sample(["a", "b", "c"], draw.randint(1, 3)), *draw.choice([[], ["of nobody"]])]
        names = dict(zip(own, draw.sample([*physical[:3], physical[0].upper(), "other"], len(own)), strict=True))
        if draw.random() < 0.5:
            own.append("d")
            names["d"] = draw.choice([physical[3], "another"])
        if len({name.lower() for name in names.values()}) < len(names):
            continue
        kinds = {name: _KINDS.get(name, pa.int64()) for name in own}
        fields = [
            pa.field(names[name], kind, metadata={"PARQUET:field_id": str(ids.get(name, 99))})
            for name, kind in kinds.items()
        ]
        values = {name: _values(draw, kind, 4) for name, kind in kinds.items()}
        file = path / f"{number}.parquet"
        pq.write_table(pa.table(list(values.values()), schema=pa.schema(fields)), file)
        add = {"path": file.name, "size": file.stat().st_size, "modificationTime": 1, "partitionValues": {}}
        write_commit(path, number + 1, {"add": {**add, "dataChange": True, "stats": json.dumps({"numRecords": 4})}})
        twin.append(pa.table({name: values.get(name, pa.nulls(4, kind)) for name, kind in _KINDS.items()}))
    (tmp_path / "twin").mkdir()
    for number, table in enumerate(twin):
        pq.write_table(table, tmp_path / "twin" / f"{number}.parquet", write_statistics=False)
    asked = {
        "spark.sql.parquet.enableVectorizedReader": str(reader == "vectorized").lower(),
        "spark.sql.parquet.recordLevelFilter.enabled": "true",
    }
    with settings(asked):
        for condition in _FILTERS:
            wanted = rows(f"SELECT * FROM parquet.`{tmp_path}/twin` WHERE {condition}", ordered=False)
            found = rows(f"SELECT * FROM delta.`{path}` WHERE {condition}", ordered=False)
            assert str(found) == str(wanted), condition
