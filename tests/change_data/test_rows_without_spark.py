"""Changelogs read from the log alone: which rows come, by which names and types, in which order; what is refused."""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from headwater import changelog
from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.stores import LocalStore
from support.changelogs import pairs
from support.inline_vectors import inline

KEYED = {"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": "9"}


class Files:
    """Writes Parquet files of a table, and makes the actions that name them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 0

    def file(self, table: pa.Table, **more: Any) -> dict[str, Any]:
        self.number += 1
        name = f"{self.number}.parquet"
        pq.write_table(table, f"{self.path}/{name}", row_group_size=4)
        size = Path(f"{self.path}/{name}").stat().st_size
        return {"path": name, "size": size, "partitionValues": {}, "modificationTime": 1, "dataChange": True, **more}

    def cdc(self, kinds: list[str], paired: bool = False, **columns: Any) -> dict[str, Any]:
        table = pa.table({**columns, "_change_type": kinds})
        tags = {"tags": {"headwater.pairedImages": "true"}} if paired else {}
        return {"cdc": {**self.file(table), "dataChange": False, **tags}}


@pytest.fixture
def files(table: Any) -> Files:
    (LocalStore()).make_directory(table.path)
    return Files(table.path)


def rows(table: Any, start: int, **more: Any) -> list[dict[str, Any]]:
    return changelog.read(table.path, starting_version=start, **more).read_all().to_pylist()


def refusal(table: Any, **arguments: Any) -> HeadwaterError:
    with pytest.raises(HeadwaterError) as caught:
        changelog.read(table.path, **arguments)
    return caught.value


def test_names_ids_types_partitions_and_columns_that_files_lack(table: Any, files: Files) -> None:
    def mapped(number: int, kind: Any, name: str) -> dict[str, Any]:
        return {"type": kind, "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}}

    inner = {
        "type": "struct",
        "fields": [
            {"name": "x", "nullable": True, **mapped(4, "long", "px")},
            {"name": "y", "nullable": True, **mapped(5, "string", "py")},
        ],
    }
    money = "decimal(12,2)"
    columns = {
        "a": mapped(1, "long", "pa"),
        "d": mapped(2, "date", "pd"),
        "s": mapped(3, {"type": "array", "elementType": inner, "containsNull": True}, "ps"),
        "m": mapped(6, {"type": "map", "keyType": "string", "valueType": money, "valueContainsNull": True}, "pm"),
        "late": mapped(7, "double", "late"),
    }
    table.create(columns=columns, configuration={**KEYED, "delta.enableChangeDataFeed": "true"}, partitions=("d",))

    def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})

    element = pa.struct([field("renamed", pa.int32(), 4)])
    shape = pa.schema([
        field("ps", pa.list_(element), 3), field("other name", pa.int32(), 1),
        field("pm", pa.map_(pa.string(), pa.decimal128(10, 2)), 6),
    ])  # fmt: skip
    values = {
        "ps": [[{"renamed": 1}, None], None, []],
        "other name": [1, 2, None],
        "pm": [[("k", 1), ("l", None)], None, []],
    }
    data = files.file(pa.table(values, shape), partitionValues={"pd": "2024-02-29"})
    table.commit({"add": data})
    found = rows(table, 1)
    assert [(row["a"], str(row["d"]), row["late"]) for row in found] == [
        (1, "2024-02-29", None), (2, "2024-02-29", None), (None, "2024-02-29", None),
    ]  # fmt: skip
    assert [row["s"] for row in found] == [[{"x": 1, "y": None}, None], None, []]
    assert [str(row["m"]) for row in found] == ["[('k', Decimal('1.00')), ('l', None)]", "None", "[]"]
    assert changelog.read(table.path, starting_version=1).schema.field("a").type == pa.int64()


def test_vectors_before_and_after(table: Any, files: Files) -> None:
    table.create()
    data = files.file(pa.table({"a": pa.array(range(10), pa.int32())}))
    small, large = BitMap64([2, 5]), BitMap64([2, 3, 9])
    first = {**data, "deletionVector": inline(small).to_json()}
    stored = deletion_vectors.write_file([large], table.path, LocalStore())[0].to_json()
    table.commit({"add": data})
    table.commit({"remove": data}, {"add": first})
    table.commit({"remove": first}, {"add": {**data, "deletionVector": stored}})
    for batch_rows in (1, 3, 100):
        found = rows(table, 1, batch_rows=batch_rows)
        assert [(row["_commit_version"], row["_row_kind"], row["a"]) for row in found] == [
            *((1, "+I", a) for a in range(10)),
            *((2, "-D", a) for a in (2, 5)),
            *((3, "-D", a) for a in (3, 9)),
            (3, "+I", 5),
        ]
        assert (
            max(b.num_rows for b in changelog.read(table.path, starting_version=1, batch_rows=batch_rows)) <= batch_rows
        )


def test_the_order_of_a_commit_and_pairs_by_keys(table: Any, files: Files) -> None:
    table.create(columns={"a": "integer", "b": "integer"})
    whole = ["delete", "update_preimage", "update_postimage", "insert", "delete", "update_preimage", "update_postimage"]
    table.commit(files.cdc(whole, True, a=[1, 2, 2, 1, 3, 4, 4], b=[0, 0, 1, 1, 0, 0, 1]))
    table.commit(
        files.cdc(["insert", *["update_postimage"] * 4], a=[9, 2, None, 2, 5], b=[0, 1, 1, 2, 0]),
        files.cdc(["update_preimage"] * 4 + ["delete"], a=[None, 2, 2, 6, 9], b=[0, 3, 4, 0, 0]),
    )
    with pytest.warns(UserWarning, match="version 2 do not say"):
        unpaired = rows(table, 1)
    ordinals = [(row["_commit_version"], row["_ordinal"]) for row in unpaired]
    assert ordinals == sorted(set(ordinals))
    assert [(row["_row_kind"], row["a"]) for row in unpaired[:7]] == [
        ("-D", 1), ("-D", 3), ("-U", 2), ("+U", 2), ("-U", 4), ("+U", 4), ("+I", 1),
    ]  # fmt: skip
    assert [row["_row_kind"] for row in unpaired[7:]] == ["-D", *["-U"] * 4, *["+U"] * 4, "+I"]
    assert len(pairs(unpaired)) == 2
    paired = rows(table, 1, keys=["A"])
    assert [(row["_row_kind"], row["a"], row["b"]) for row in paired[7:]] == [
        ("-D", 9, 0), ("-U", 6, 0), ("-U", None, 0), ("+U", None, 1), ("-U", 2, 3), ("+U", 2, 1), ("-U", 2, 4),
        ("+U", 2, 2), ("+U", 5, 0), ("+I", 9, 0),
    ]  # fmt: skip
    assert len(pairs(paired)) == 5
    few = rows(table, 1, keys=["a"], columns=["_ordinal", "B"])
    assert few == [{"_ordinal": row["_ordinal"], "b": row["b"]} for row in paired]


def test_pairs_by_several_keys_are_those_of_a_plain_model(table: Any, files: Files) -> None:
    """The n-th preimage and the n-th postimage of a key are a pair; keys that are null, or zeros, are keys, too."""
    rng = random.Random(7)
    table.create(columns={"a": "string", "x": "double", "n": "integer"})
    kinds = ["update_preimage", "update_postimage"]
    drawn = [
        (rng.choice(["p", "q", None]), rng.choice([0.0, -0.0, 1.5, None]), number, rng.choice(kinds))
        for number in range(120)
    ]
    parts = drawn[:50], drawn[50:51], [row for row in drawn[51:] if row[3] == kinds[0]], drawn[51:]
    for version, part in enumerate(parts, 1):
        halves = part[: len(part) // 2], part[len(part) // 2 :]
        named = [dict(zip(("a", "x", "n", "kinds"), zip(*half, strict=True), strict=True)) for half in halves if half]
        for columns in named:
            columns["n"] = pa.array(columns["n"], pa.int32())
            columns["x"] = pa.array(columns["x"], pa.float64())
            columns["a"] = pa.array(columns["a"], pa.string())
        table.commit(*(files.cdc(**columns) for columns in named))
        waiting: dict[Any, list[int]] = {}
        for a, x, number, kind in part:
            waiting.setdefault((kind, a, x), []).append(number)
        expected = [
            pair
            for (kind, *key), before in waiting.items()
            if kind == kinds[0]
            for pair in zip(before, waiting.get((kinds[1], *key), []), strict=False)
        ]
        found = rows(table, version, keys=["x", "a"])
        assert [row["_ordinal"] for row in found] == sorted({row["_ordinal"] for row in found})
        assert sorted(row["n"] for row in found) == sorted(row[2] for row in part)
        assert sorted((one[2], two[2]) for one, two in pairs(found)) == sorted(expected)


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_of_pairs_where_there_are_no_updates(table: Any, files: Files) -> None:
    table.create()
    table.commit(files.cdc(["delete"] * 9, a=list(range(9))), files.cdc(["insert", "delete"], a=[1, 2]))
    table.commit({"cdc": {"path": "gone.parquet", "size": 100, "partitionValues": {}, "dataChange": False}})
    assert len(rows(table, 1, ending_version=1)) == 11
    with pytest.raises(UserWarning, match="version 2 do not say"):
        rows(table, 1)
    table.commit(files.cdc([*["insert"] * 5, "update_postimage"], a=list(range(6))))
    with pytest.raises(UserWarning, match="version 3 do not say"):
        rows(table, 3)


def test_ranges_and_what_is_refused(table: Any, files: Files) -> None:
    table.create(configuration={"delta.enableChangeDataFeed": "false"})
    table.commit({"add": files.file(pa.table({"a": pa.array([1], pa.int32())}))})
    table.commit(table.metadata(configuration={"delta.enableChangeDataFeed": "true"}))
    gone = files.file(pa.table({"a": pa.array([2], pa.int32())}))
    table.commit({"add": gone})
    found = rows(table, 2, ending_version=3)
    assert [row["a"] for row in found] == [2]
    at = datetime.fromtimestamp(30, timezone.utc)  # when version 3 was committed
    times = {"starting_timestamp": at, "ending_timestamp": at}
    assert changelog.read(table.path, **times).read_all().to_pylist() == found
    for condition, words, arguments in (
        ("DELTA_MISSING_CHANGE_DATA", "from version 2 on", {"starting_version": 1}),
        ("DELTA_NO_START_FOR_CDC_READ", "", {}),
        ("DELTA_MULTIPLE_CDC_BOUNDARY", "starting", {"starting_version": 1, "starting_timestamp": at}),
        ("DELTA_VERSION_INVALID", "-1", {"starting_version": -1}),
        ("DELTA_INVALID_CDC_RANGE", "3 to 2", {"starting_version": 3, "ending_version": 2}),
        ("DELTA_CDC_START_VERSION_AFTER_LATEST", "is 3", {"starting_version": 4}),
        ("HEADWATER_KEY_COLUMN_NOT_FOUND", "'aa'", {"starting_version": 2, "keys": ["aa"]}),
        ("HEADWATER_NO_KEY_COLUMNS", "", {"starting_version": 2, "keys": []}),
        ("HEADWATER_CHANGELOG_COLUMN_NOT_FOUND", "'q'", {"starting_version": 2, "columns": ["a", "q"]}),
    ):
        error = refusal(table, **arguments)
        assert error.condition == condition
        assert words in error.text
    with pytest.raises(HeadwaterError, match=r"s3://bucket/table .* filesystem=") as caught:
        changelog.read("s3://bucket/table", starting_version=1)
    assert caught.value.condition == "HEADWATER_CHANGELOG_NEEDS_FILE_SYSTEM"
    reader = changelog.read(table.path, starting_version=2)
    LocalStore().delete(f"{table.path}/{gone['path']}")
    with pytest.raises(HeadwaterError) as caught:
        reader.read_all()
    assert caught.value.condition == "DELTA_CHANGE_DATA_FILE_NOT_FOUND"


def test_neither_spark_nor_a_jvm_is_needed(table: Any, files: Files) -> None:
    table.create()
    table.commit({"add": files.file(pa.table({"a": pa.array([1, 2], pa.int32())}))})
    script = (
        "import sys, headwater.changelog as c; print(c.read(sys.argv[1], starting_version=1).read_all().num_rows);"
        "print([m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j') or m.startswith('headwater.bridge')])"
    )
    run = subprocess.run([sys.executable, "-c", script, table.path], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["2", "[]"]
