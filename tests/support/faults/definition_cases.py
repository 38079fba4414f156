"""Statements that make a table or change its definition, and a stream's batch, each with the table it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from headwater.log import deletion_vectors
from headwater.protocol.actions import AddFile
from support.faults.running import PATH, SCHEMA, STATS, TEN_ROWS, Before, Case, Request, parquet, plain_file
from support.requests import create_request, data_file, schema_json
from support.stores.memory_store import MemoryStore


def alter(*changes: Request) -> tuple[str, Request]:
    return "alter_table", {"table": PATH, "name": "t", "changes": list(changes)}


def altering(*changes: Request, done: Sequence[str] = (), **table: Any) -> Case:
    return Case([alter(*changes)], done=done, **table)


def sets(key: str, value: str) -> Request:
    return {"kind": "set_property", "key": key, "value": value}


def column(name: str, kind: str = '"string"', **more: Any) -> Request:
    return {"kind": "add_column", "path": [name], "type": kind, "nullable": True, **more}


def drop(feature: str, truncates: bool = False, **table: Any) -> Case:
    arguments = {"feature": feature, "truncateHistory": truncates}
    asked = [("drop_feature", {"table": PATH, "name": "t", "arguments": arguments})]
    done = ["DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"]
    return Case(asked, done=done, **table)


def batch(
    number: int = 0,
    mode: str = "Append",
    schema: str = SCHEMA,
    table: str = PATH,
    **options: str,
):
    sink: dict[str, Any] = {
        "table": table,
        "mode": mode,
        "partitionColumns": [],
        "clusteringColumns": None,
        "options": options,
    }
    asked = {"sink": sink, "queryId": "q", "batchId": number, "schema": schema}
    return [
        ("plan_batch", {"batch": asked}),
        ("write_batch", {"batch": asked, "plan": 0, "schema": schema, "readsTable": False}),
    ]


#: The file that a rewrite writes, as Spark names the one of the first task.
_WRITTEN = "part-00000-written.parquet"


def _written_file(store: MemoryStore) -> AddFile:
    """What a rewrite will write, for those who look into it; and a file of the table."""
    store.put(f"{PATH}/{_WRITTEN}", _WIDER)
    return plain_file("3.parquet", STATS)(store)


def _vector(store: MemoryStore) -> AddFile:
    vector = deletion_vectors.write_file([BitMap64([1])], PATH, store)[0]
    return AddFile("marked.parquet", {}, 100, 1, True, STATS, deletion_vector=vector)


_WIDER = parquet(pa.array([9] * 40, pa.int64()))
MAPPED = {"delta.columnMapping.mode": "name"}
NOW = {"delta.dropFeatureTruncateHistory.retentionDuration": "0 seconds"}
BATCH_OF_TWO = {"spark.databricks.delta.rowTracking.backfill.maxNumFilesPerCommit": "2"}
CHECK = {"kind": "add_constraint", "constraint": {"kind": "check", "name": "few", "expression": "a < 90"}}
GONE = ["DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", "DELTA_CANNOT_RESOLVE_COLUMN"]
IDENTITY = {"identity": [{"column": "i", "start": 1, "step": 1, "allowExplicitInsert": True}]}


def _written(rows: int) -> list[Any]:
    return [[data_file(_WRITTEN, rows, [[1, 9, 0], ["x", "y", 0]], size=len(_WIDER))]]


def deep_clone(mode: str) -> list[tuple[str, Request]]:
    return [("clone", {"table": PATH, "mode": mode, "source": "/source", "arguments": {"isShallow": False}})]


def _source_file(name: str) -> Request:
    return data_file(name, 10, [[1, 9, 0], ["x", "x", 0]], size=len(TEN_ROWS))


#: Another table, of two files; a third one is not yet part of it.
_SOURCE = Before(
    [("create_table", create_request("/source", SCHEMA, plan=0, rowSchema=SCHEMA))],
    [[_source_file("w.parquet"), _source_file("x.parquet")]],
    {f"/source/{name}.parquet": TEN_ROWS for name in "wxy"},
)

CASES: dict[str, Case] = {
    "ADD COLUMNS": altering(column("c"), column("d", position={}), done=["DELTA_ADD_COLUMN_EXISTS"]),
    "ADD COLUMNS, mapped": altering(column("c"), done=["DELTA_ADD_COLUMN_EXISTS"], properties=MAPPED),
    "RENAME COLUMN": altering({"kind": "rename_column", "path": ["a"], "newName": "z"}, done=GONE, properties=MAPPED),
    "DROP COLUMNS": altering({"kind": "drop_column", "path": ["a"]}, done=GONE, properties=MAPPED),
    "REPLACE COLUMNS": altering(
        *({"kind": "drop_column", "path": [name]} for name in ("a", "b")),
        column("b"),
        column("a", '"integer"'),
        column("c"),
        done=["DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"],
    ),
    "ALTER COLUMN TYPE": altering(
        {"kind": "column_type", "path": ["a"], "type": '"long"'}, properties={"delta.enableTypeWidening": "true"}
    ),
    "ALTER COLUMN FIRST": altering({"kind": "column_position", "path": ["b"], "position": {}}),
    "ALTER COLUMN SET NOT NULL": altering({"kind": "column_nullability", "path": ["a"], "nullable": False}),
    "ALTER COLUMN DROP NOT NULL": altering(
        {"kind": "column_nullability", "path": ["a"], "nullable": True},
        prepare=[alter({"kind": "column_nullability", "path": ["a"], "nullable": False})],
    ),
    "ALTER COLUMN SET DEFAULT": altering(
        {"kind": "column_default", "path": ["b"], "default": "'x'"},
        properties={"delta.feature.allowColumnDefaults": "supported"},
    ),
    "ALTER COLUMN COMMENT": altering({"kind": "column_comment", "path": ["a"], "comment": "first"}),
    "ALTER COLUMN, several": altering(
        {"kind": "column_type", "path": ["a"], "type": '"long"'},
        {"kind": "column_comment", "path": ["b"], "comment": "first"},
        {"kind": "column_position", "path": ["b"], "position": {}},
        properties={"delta.enableTypeWidening": "true"},
    ),
    "ADD CONSTRAINT": altering(CHECK, done=["DELTA_CONSTRAINT_ALREADY_EXISTS"]),
    "DROP CONSTRAINT": altering(
        {"kind": "drop_constraint", "name": "few", "ifExists": False},
        prepare=[alter(CHECK)],
        done=["DELTA_CONSTRAINT_DOES_NOT_EXIST"],
    ),
    "SET TBLPROPERTIES": altering(sets("k", "1"), sets("comment", "a table")),
    "SET TBLPROPERTIES, column mapping": altering(sets("delta.columnMapping.mode", "name")),
    "SET TBLPROPERTIES, deletion vectors": altering(sets("delta.enableDeletionVectors", "true")),
    "SET TBLPROPERTIES, in-commit timestamps": altering(sets("delta.enableInCommitTimestamps", "true")),
    "SET TBLPROPERTIES, v2 checkpoints": altering(sets("delta.checkpointPolicy", "v2")),
    "SET TBLPROPERTIES, change data feed": altering(sets("delta.enableChangeDataFeed", "true")),
    "SET TBLPROPERTIES, row tracking": altering(sets("delta.enableRowTracking", "true"), confs=BATCH_OF_TWO),
    "UNSET TBLPROPERTIES": altering({"kind": "remove_property", "key": "mine"}, properties={"mine": "1"}),
    "UNSET TBLPROPERTIES, in-commit timestamps": altering(
        {"kind": "remove_property", "key": "delta.enableInCommitTimestamps"},
        properties={"delta.enableInCommitTimestamps": "true"},
    ),
    "CLUSTER BY": altering({"kind": "cluster_by", "columns": [["a"]]}, create={"partitioning": ["cluster_by(b)"]}),
    "CLUSTER BY NONE": altering({"kind": "cluster_by", "columns": []}, create={"partitioning": ["cluster_by(b)"]}),
    "SYNC IDENTITY": Case(
        [("sync_identity", {"table": PATH, "name": "t", "arguments": {"column": ["i"]}})],
        schema=schema_json(a="integer", i="long"),
        create=IDENTITY,
        stats='{"numRecords":10,"minValues":{"i":5},"maxValues":{"i":14},"nullCount":{"i":0}}',
    ),
    "DROP FEATURE, of writers": drop("checkConstraints", properties={"delta.feature.checkConstraints": "supported"}),
    "DROP FEATURE, with checkpoints": drop(
        "vacuumProtocolCheck", properties={"delta.feature.vacuumProtocolCheck": "supported"}
    ),
    "DROP FEATURE, deletion vectors": drop(
        "deletionVectors",
        properties={"delta.enableDeletionVectors": "true"},
        prepare=[_vector],
        written=_written(9),
    ),
    "DROP FEATURE, column mapping": drop("columnMapping", properties=MAPPED, written=_written(30)),
    "DROP FEATURE, in-commit timestamps": drop(
        "inCommitTimestamp", properties={"delta.enableInCommitTimestamps": "true"}
    ),
    "DROP FEATURE, row tracking": drop(
        "rowTracking", properties={"delta.enableRowTracking": "true"}, confs=BATCH_OF_TWO
    ),
    "DROP FEATURE, type widening": drop(
        "typeWidening",
        properties={"delta.enableTypeWidening": "true"},
        prepare=[alter({"kind": "column_type", "path": ["a"], "type": '"long"'}), _written_file],
        written=_written(40),
    ),
    "DROP FEATURE, v2 checkpoints": drop("v2Checkpoint", properties={"delta.checkpointPolicy": "v2"}),
    "DROP FEATURE TRUNCATE HISTORY": drop(
        "deletionVectors", True, properties={"delta.feature.deletionVectors": "supported"}
    ),
    "DROP FEATURE TRUNCATE HISTORY, of old versions": drop(
        "v2Checkpoint",
        True,
        properties={"delta.checkpointPolicy": "v2", **NOW},
        prepare=[alter(sets("delta.checkpointPolicy", "classic"))],
    ),
    "DROP FEATURE checkpointProtection": drop(
        "checkpointProtection",
        True,
        properties={"delta.feature.vacuumProtocolCheck": "supported", **NOW},
        prepare=[drop("vacuumProtocolCheck").steps[0]],
    ),
    "ANALYZE": Case(
        [("analyze_table", {"table": PATH, "name": "t", "arguments": {"columns": [["a"]]}})], stats='{"numRecords":10}'
    ),
    "TRUNCATE": Case([("truncate", {"table": PATH})]),
    "SHALLOW CLONE": Case(
        [("clone", {"table": PATH, "mode": "replace", "source": "/source", "arguments": {"isShallow": True}})],
        prepare=[
            ("truncate", {"table": PATH}),
            ("create_table", create_request("/source", SCHEMA, plan=0, rowSchema=SCHEMA, properties=MAPPED)),
        ],
        written=[[data_file("new.parquet", 2, [[1, 5, 0], ["x", "y", 0]])]],
        done=["DELTA_UNSUPPORTED_NON_EMPTY_CLONE"],
    ),
    "DEEP CLONE": Case(deep_clone("create"), schema="", prepare=[_SOURCE], done=["DELTA_TABLE_ALREADY_EXISTS"]),
    "DEEP CLONE, again": Case(
        deep_clone("create_or_replace"),
        schema="",
        prepare=[
            _SOURCE,
            Before(deep_clone("create")),
            Before(batch(table="/source"), [[_source_file("y.parquet")]]),
        ],
    ),
    "CONVERT": Case(
        [("convert_to_delta", {"table": PATH, "arguments": {"statistics": True}, "format": "parquet"})],
        schema="",
        files={f"{PATH}/{name}.parquet": TEN_ROWS for name in "xy"},
    ),
    "a batch": Case(batch(), written=_written(2)),
    "a batch, Complete": Case(batch(mode="Complete"), written=_written(2)),
    "a batch that brings a column": Case(
        batch(schema=schema_json(a="integer", b="string", c="integer"), mergeSchema="true"),
        properties=MAPPED,
        written=[[data_file("new.parquet", 2, [[1, 5, 0], ["x", "y", 0], [1, 2, 0]])]],
    ),
    "the batch that creates": Case(batch(), schema="", written=_written(2)),
}
