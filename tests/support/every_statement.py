"""Every statement that acts on a table, as Spark's side asks for it, without Spark.

A stand-in for the JVM's side answers each call back as Spark would of a table whose first file has a row that the
statement is about. So whatever a log holds meets all of the code that works for the statement, up to its commit.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from pyroaring import BitMap64

from headwater.bridge import calls
from headwater.bridge.calls import EntryPoint
from headwater.bridge.messages.callbacks import TrackedRows, WrittenFile, WrittenRows
from headwater.bridge.messages.change import ChangeRequest
from headwater.log import deletion_vectors
from headwater.statements.registry import HANDLERS
from support.predicate_text import tree
from support.recording_statement import RecordingStatement

Request = dict[str, Any]

#: Conditions over the table's columns that skip files by statistics and by partition values.
FILTERS = ["(`id` > 3)", "(`day` < DATE '2024-01-04')", "(`s`.`x` IS NOT NULL)", "(`at` > '2020-01-01')"]


class ObligingStatement(RecordingStatement):
    """Writes a file wherever it is asked to write rows, as many as there are, and finds the first row of the first file
    whenever it is asked which rows to replace.
    """

    def __init__(self, confs=None):
        super().__init__(confs)
        #: Of each task of the next write job: its rows, and a partition value that they have.
        self._tasks = [(4, "2024-01-01")]
        #: Whether there is any file in the last scan of the target.
        self._scanned = False

    def write_tracked(self, specification):
        files = [_written(number, specification, *task) for number, task in enumerate(self._tasks)]
        if not specification.tracked:
            return WrittenRows(files=files, counted=1, tracked=None)
        first = BitMap64([0]).serialize()
        positions = {0: first} if self._scanned else {}
        tracked = TrackedRows(positions=positions, source=first, actions={0: 1, 1: 1, 2: 1}, repeated=0)
        return WrittenRows(files=files if specification.path else [], counted=1, tracked=tracked)

    def write(self, specification):
        return self.write_tracked(specification).files

    def add_relation(self, table, version, files, row_tracking_columns=(), tasks=(), position=None, **options):
        rest = list(files)
        bins = [[rest.pop(0) for _ in range(count)] for count in tasks] or [rest]
        self._tasks = [(sum(map(_live, each)), (each[0][4:] or ["2024-01-01"])[0]) for each in bins if each]
        return super().add_relation(table, version, files, row_tracking_columns, tasks, position, **options)

    def restrict(self, plan, restriction):
        self._scanned = bool(restriction.files)
        self._tasks = [(sum(map(_live, restriction.files)) - 1, "2024-01-01")]
        return 100

    def add_target(self, table):
        self._target = table
        return 0

    def place_qualified(self, text, qualifier):
        return self.place(text)

    def resolve_merge(self, sql):
        loaded = answer("load_table", {"table": self._target})["result"]
        return msgspec.convert({"table": self._target, **_merge(loaded)}, ChangeRequest)

    def query(self, sql):
        return [_Row(time=4_000_000_000_000_000, text="2096-10-02")]

    def pin(self, plan, version):
        pass

    def keep(self, sql):
        return 101

    def noted_keys(self):
        return [[4]]

    def plan_size(self, plan):
        return 1

    def expression_texts(self):
        return ["1"] * 30

    def parquet_files(self, plan, expressions, most):
        return None

    def matching_partitions(self, plan, condition, partitions):
        return [True] * len(partitions)

    def explain(self, sql, mode):
        return sql

    def compact_later(self, table):
        pass


class _Row(dict):
    """A row of a query: of what is not a time or a number, there is nothing."""

    def __missing__(self, name):
        return 0 if name.endswith("number") else []


def _live(file) -> int:
    """How many rows a scan of a file of the test's tables has."""
    vector = file[3]
    if vector is None:
        return 4
    if not vector.startswith("inline "):
        return 2
    return 4 - len(deletion_vectors.deserialize(base64.b64decode(vector.removeprefix("inline "))))


def _written(number, specification, rows, day) -> WrittenFile:
    return WrittenFile(
        path=f"part-{number:05}-written.parquet",
        size=4,
        modification_time=1_700_000_000_000,
        partition={name: day for name in specification.partition_by if name != specification.change_column},
        rows=rows,
        statistics=[[None, None, None] for _ in specification.statistics],
    )


def answer(call: str, request: Request, **confs: str) -> Request:
    """What Spark's side gets for a call: its result, or its error."""
    envelope = json.dumps({"session": {"confs": confs}, "request": request})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(calls, "Statement", lambda _, session, title: ObligingStatement(session.confs))
        return json.loads(EntryPoint(lambda: HANDLERS).call(call, envelope, None))


def _bounds(**named: str) -> list[Request]:
    return [{"name": name, "value": value, "micros": None} for name, value in named.items()]


#: What is asked of a table before Spark has loaded it.
BY_PATH: dict[str, tuple[str, Request]] = {
    "load": ("load_table", {"name": "t"}),
    "an earlier version": ("load_table", {"version": 1}),
    "a time": ("load_table", {"timestamp": "1700000000000000"}),
    "describe history": ("describe_history", {"name": "t", "arguments": {}}),
    "describe detail": ("describe_detail", {"name": "t", "arguments": {}}),
    "describe health": ("describe_health", {"name": "t", "arguments": {}}),
    "show partitions": ("show_partitions", {"name": "t", "partition": None}),
    "show create table": ("show_create_table", {"name": "t", "location": None}),
    "show columns": ("show_columns", {"name": "t"}),
    "table_changes": ("table_changes", {"form": {}, "bounds": _bounds(startingVersion="0")}),
    "table_changelog": ("table_changes", {"form": {"changelog": True}, "bounds": _bounds(startingVersion="0")}),
    "stream": ("open_stream", {"options": {}, "bounds": [], "checkpoint": "/c/sources/0"}),
    "stream of changes": (
        "open_stream",
        {"options": {"readChangeFeed": "true"}, "bounds": _bounds(startingVersion="1"), "checkpoint": "/c/sources/0"},
    ),
    "optimize": ("optimize", {"name": "t", "arguments": {}}),
    "optimize full": ("optimize", {"name": "t", "arguments": {"full": True}}),
    "optimize where": ("optimize", {"name": "t", "arguments": {"where": "(`day` < DATE '2024-01-04')"}}),
    "optimize zorder": ("optimize", {"name": "t", "arguments": {"zOrderBy": [["id"]]}}),
    "optimize dry run": ("optimize_dry_run", {"name": "t", "arguments": {}}),
    "auto compaction": ("auto_compact", {}),
    "reorg": ("reorg", {"name": "t", "arguments": {}}),
    "upgrade to UniForm": ("upgrade_uniform", {"name": "t", "arguments": {"version": 2}}),
    "compute statistics": ("analyze_table", {"name": "t", "arguments": {}}),
    "vacuum dry run": ("vacuum", {"name": "t", "arguments": {"dryRun": True}}),
    "vacuum lite": ("vacuum", {"name": "t", "arguments": {"mode": "lite"}}),
    "vacuum": ("vacuum", {"name": "t", "arguments": {}}),
    "an index": (
        "alter_table",
        {"name": "t", "changes": [{"kind": "set_property", "key": "headwater.index.i.columns", "value": "id"}]},
    ),
    "drop index": ("drop_index", {"name": "t", "arguments": {"index": "i", "ifExists": True}}),
    "refresh index": ("refresh_index", {"name": "t", "arguments": {}}),
    "show indexes": ("show_indexes", {"name": "t", "arguments": {}}),
    "fsck dry run": ("fsck", {"name": "t", "arguments": {"dryRun": True}}),
    "fsck": ("fsck", {"name": "t", "arguments": {}}),
    "maintain dry run": ("maintain_table_dry_run", {"name": "t", "arguments": {}}),
    "maintain": ("maintain_table", {"name": "t", "arguments": {}}),
    "mark": ("alter_table_predictive_optimization", {"name": "t", "arguments": {"mark": "ENABLE"}}),
    "generate": ("generate", {"name": "t", "arguments": {"mode": "symlink_format_manifest"}}),
    "set property": ("alter_table", {"name": "t", "changes": [{"kind": "set_property", "key": "k", "value": "v"}]}),
    "track rows": (
        "alter_table",
        {"name": "t", "changes": [{"kind": "set_property", "key": "delta.enableRowTracking", "value": "true"}]},
    ),
    "map columns": (
        "alter_table",
        {"name": "t", "changes": [{"kind": "set_property", "key": "delta.columnMapping.mode", "value": "name"}]},
    ),
    "add column": (
        "alter_table",
        {"name": "t", "changes": [{"kind": "add_column", "path": ["c"], "type": '"integer"', "nullable": True}]},
    ),
    "comment column": (
        "alter_table", {"name": "t", "changes": [{"kind": "column_comment", "path": ["id"], "comment": "c"}]},
    ),
    "not null": (
        "alter_table", {"name": "t", "changes": [{"kind": "column_nullability", "path": ["id"], "nullable": False}]},
    ),
    "add constraint": (
        "alter_table",
        {
            "name": "t",
            "changes": [
                {"kind": "add_constraint", "constraint": {"kind": "check", "name": "c", "expression": "(`id` > 3)"}}
            ],
        },
    ),
    "cluster by": ("alter_table", {"name": "t", "changes": [{"kind": "cluster_by", "columns": [["id"]]}]}),
    "cluster by none": ("alter_table", {"name": "t", "changes": [{"kind": "cluster_by", "columns": []}]}),
    "drop feature": ("drop_feature", {"name": "t", "arguments": {"feature": "deletionVectors"}}),
    "drop feature for good": (
        "drop_feature", {"name": "t", "arguments": {"feature": "v2Checkpoint", "truncateHistory": True}},
    ),
    "replace": (
        "create_table",
        {
            "name": None,
            "mode": "create_or_replace",
            "external": True,
            "schema": '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}',
            "partitioning": [],
            "partitionColumns": [],
            "comment": None,
            "properties": {},
        },
    ),
    "plan save": ("plan_save", {"mode": "Append", "partitionColumns": [], "options": {}}),
    "clone": ("clone", {"name": None, "mode": "create_or_replace", "arguments": {"isShallow": True}}),
    "clone 1": ("clone", {"name": "c", "mode": "create", "arguments": {"isShallow": True, "version": "1"}}),
    "restore 1": ("restore", {"name": "t", "arguments": {"version": "1"}}),
    "restore 0": ("restore", {"name": "t", "arguments": {"version": "0"}}),
    "restore a time": ("restore", {"name": "t", "arguments": {"timestamp": "TIMESTAMP '2024-01-01 00:00:00'"}}),
    "truncate": ("truncate", {}),
}  # fmt: skip


def _change(loaded: Request, **more: Any) -> Request:
    columns = json.loads(loaded["tableSchema"])["fields"]
    return {
        "name": "t",
        "version": loaded["version"],
        "tableId": loaded["tableId"],
        "tableSchema": loaded["tableSchema"],
        "target": 0,
        "columns": list(range(len(columns))),
        "source": None,
        "sourceColumns": [],
        "sourceNames": [],
        "sourceDeterministic": True,
        "sourceBytes": None,
        "sourceIsScan": False,
        "condition": 10,
        "conditionDeterministic": True,
        "conditionText": "id > 3",
        "conditionColumns": ["id"],
        "conjuncts": [{"target": tree("(`id` > 3)")}],
        "runsPython": False,
        "readsTargetElsewhere": False,
        "matched": [],
        "notMatched": [],
        "notMatchedBySource": [],
        **more,
    }


def _update(loaded: Request) -> Request:
    values = list(range(len(json.loads(loaded["tableSchema"])["fields"])))
    return {"kind": "update", "values": values, "assigned": ["id"]}


def _merge(loaded: Request) -> Request:
    update = _update(loaded)
    return _change(
        loaded,
        source=1,
        sourceColumns=[20],
        sourceNames=["id"],
        sourceBytes=10,
        conjuncts=[{"key": {"column": "id", "value": 20, "type": '"long"'}}],
        matched=[update],
        notMatched=[{**update, "kind": "insert"}],
        notMatchedBySource=[{"kind": "delete"}],
    )


def _write(loaded: Request, mode: str = "append", **options: str) -> Request:
    schema = {"plan": 0, "schema": loaded["tableSchema"]}
    return {"name": "t", **schema, "mode": mode, "options": options, "version": loaded["version"]}


def _scan(loaded: Request, **more: Any) -> Request:
    return {"version": loaded["version"], "tableId": loaded["tableId"], **more}


def _alone(loaded: Request, request: Request) -> Request:
    """A request about several tables, about one."""
    return {"requests": [{"table": loaded["path"], **request}]}


def _sink(path: str) -> Request:
    return {"table": path, "mode": "Append", "partitionColumns": [], "clusteringColumns": None, "options": {}}


#: What is asked of a table that Spark has loaded.
LOADED: dict[str, tuple[str, Callable[[Request], Request]]] = {
    "scan": ("scans", lambda t: _alone(t, _scan(t, filters=[tree(text) for text in FILTERS]))),
    "scan with statistics": ("scans", lambda t: _alone(t, _scan(t, filters=[], columns=["id", "at"]))),
    "aggregate": (
        "aggregate",
        lambda t: _scan(
            t, groups=[], outputs=[{"kind": "min", "column": "id"}, {"kind": "count"}], filters=[]
        ),
    ),
    "refresh": ("refresh_tables", lambda t: _alone(t, {})),
    "resolve write": (
        "resolve_write",
        lambda t: {
            "name": "t", "version": t["version"], "schema": t["tableSchema"], "byName": True, "options": {},
        },
    ),
    "insert": ("write", _write),
    "insert overwrite": ("write", lambda t: _write(t, "overwrite")),
    "overwrite partitions": ("write", lambda t: _write(t, "dynamic")),
    "replace where": ("write", lambda t: _write(t, "overwrite", replaceWhere="(`day` < DATE '2024-01-04')")),
    "upsert": ("write", lambda t: _write(t, idCols="id")),
    "delete": ("delete", lambda t: _change(t)),
    "delete all": (
        "delete", lambda t: _change(t, condition=None, conditionText=None, conditionColumns=[], conjuncts=[]),
    ),
    "update": ("update", lambda t: _change(t, matched=[_update(t)])),
    "merge": ("merge", _merge),
    "merge target": (
        "merge_target",
        lambda t: {
            "version": t["version"], "withSchemaEvolution": True, "source": t["tableSchema"], "star": True,
            "assigned": [],
        },
    ),
    "explain": (
        "explain", lambda t: {"statement": "delete", "mode": "simple", "change": {"table": t["path"], **_change(t)}},
    ),
    "batch": (
        "plan_batch",
        lambda t: {"batch": {"sink": _sink(t["path"]), "queryId": "q", "batchId": 1, "schema": t["tableSchema"]}},
    ),
}  # fmt: skip


def ask(path: str, name: str) -> dict[str, Request]:
    """The answers to a statement, by the call that gave them: more than one where it takes several."""
    if name in BY_PATH:
        call, request = BY_PATH[name]
        tables = {"table": f"{path}-{uuid.uuid4()}", "source": path} if call == "clone" else {"table": path}
        answers = {call: answer(call, {**tables, **request}, **_UNCHECKED)}
        opened = answers[call].get("result")
        if call == "open_stream" and opened is not None:
            answers |= _follow(opened["stream"], opened.get("readsChanges", False))
        return answers
    loaded = answer("load_table", {"table": path})
    if "error" in loaded:
        return {"load_table": loaded}
    call, make = LOADED[name]
    request = make(loaded["result"])
    whole = request if call in ("explain", "plan_batch", "scans", "refresh_tables") else {"table": path, **request}
    return {call: answer(call, whole, **_UNCHECKED)}


_UNCHECKED = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
STATEMENTS = (*BY_PATH, *LOADED)
#: Those that change nothing.
READERS = (
    "load", "an earlier version", "a time", "describe history", "describe detail", "describe health", "show partitions",
    "show create table", "table_changes", "table_changelog", "stream", "stream of changes", "scan", "aggregate",
)  # fmt: skip


def _follow(stream: Request, changes: bool) -> dict[str, Request]:
    ended = answer("stream_end", {"stream": stream})
    end = ended.get("result", {}).get("offset")
    if end is None:
        return {"stream_end": ended}
    call = "stream_changes" if changes else "stream_files"
    more: dict[str, Any] = {} if changes else {"filters": []}
    return {"stream_end": ended, call: answer(call, {"stream": stream, "end": end, **more})}
