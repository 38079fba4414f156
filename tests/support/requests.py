"""Requests as the JVM makes them, and what a log holds."""

import json
from pathlib import Path

import msgspec

from headwater.statements.registry import HANDLERS


def called(name):
    """A handler as Spark's side calls it: takes and returns what JSON has."""

    def call(request, statement):
        handler = HANDLERS[name]
        return json.loads(msgspec.json.encode(handler.run(msgspec.convert(request, handler.request), statement)))

    return call


def called_for_one(name):
    """A handler of several requests, as one that takes one request and returns its answer."""
    call = called(name)
    return lambda request, statement: call({"requests": [request]}, statement)[0]


refresh_table, scan_of = map(called_for_one, ("refresh_tables", "scans"))
aggregate, alter_table, check_same_schema, create_table, delete, describe_detail, describe_history = map(
    called,
    (
        "aggregate",
        "alter_table",
        "check_same_schema",
        "create_table",
        "delete",
        "describe_detail",
        "describe_history",
    ),
)
load_table, merge, plan_save, recover_commit, resolve_write, truncate, update, write = map(
    called,
    (
        "load_table",
        "merge",
        "plan_save",
        "recover_commit",
        "resolve_write",
        "truncate",
        "update",
        "write",
    ),
)


def schema_json(**columns):
    """A schema's JSON from ``name="type"``; ``name=("type", {...})`` adds metadata."""
    fields = []
    for name, kind in columns.items():
        kind, metadata = kind if isinstance(kind, tuple) else (kind, {})
        fields.append({"name": name, "type": kind, "nullable": True, "metadata": metadata})
    return json.dumps({"type": "struct", "fields": fields})


def create_request(path, schema, **more):
    return {
        "table": str(path),
        "name": None,
        "mode": "create",
        "external": True,
        "schema": schema,
        "partitioning": [],
        "partitionColumns": [],
        "comment": None,
        "properties": {},
        **more,
    }


def data_file(name, rows, statistics, partition=None, size=100):
    return {
        "path": name,
        "size": size,
        "modificationTime": 1_700_000_000_000,
        "partition": partition or {},
        "rows": rows,
        "statistics": statistics,
    }


def log_of(path, version):
    text = (Path(path) / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def actions(path, version, kind):
    return [line[kind] for line in log_of(path, version) if kind in line]
