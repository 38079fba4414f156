"""What a foreign log may say: named damages of the table of ``test_damaged_tables`` that has no checkpoint.

The table has five versions: its definition, three files, a deletion vector, an inline deletion vector with change data,
one more file. Each damage is of one field, file or domain, as a careless or hostile writer leaves it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

Damage = Callable[[Path], object]

_READER = ["deletionVectors", "v2Checkpoint"]
_WRITER = [*_READER, "changeDataFeed"]
_HUGE, _LARGEST = 1 << 70, (1 << 63) - 1


def _commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def _edit(version: int, kind: str, change: Callable[[dict[str, Any]], object], table: Path) -> None:
    """Change each action of a kind; what else is known of the version goes."""
    file = _commit(table, version)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if kind in line:
            change(line[kind])
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    _forget(table)


def _forget(table: Path) -> None:
    for file in (*table.glob("_delta_log/*.crc"), *table.glob("_delta_log/*.compacted.json")):
        file.unlink()


def _put(version: int, kind: str, /, **values: Any) -> Damage:
    return partial(_edit, version, kind, lambda action: action.update(values))


def _without(version: int, kind: str, name: str) -> Damage:
    return partial(_edit, version, kind, lambda action: action.pop(name, None))


def _configuration(**values: Any) -> Damage:
    named = {f"delta.{name.replace('__', '.')}": value for name, value in values.items()}
    return partial(_edit, 0, "metaData", lambda action: action["configuration"].update(named))


def _protocol(reader: Any, writer: Any, *versions: Any) -> Damage:
    def change(action: dict[str, Any]) -> None:
        action.clear()
        action.update(zip(("minReaderVersion", "minWriterVersion"), versions or (3, 7), strict=True))
        if reader is not None:
            action.update(readerFeatures=reader)
        if writer is not None:
            action.update(writerFeatures=writer)

    return partial(_edit, 0, "protocol", change)


def _column(**values: Any) -> Damage:
    def change(action: dict[str, Any]) -> None:
        schema = json.loads(action["schemaString"])
        schema["fields"][0].update(values)
        action["schemaString"] = json.dumps(schema)

    return partial(_edit, 0, "metaData", change)


def _add_line(version: int, *more: Any) -> Damage:
    def damage(table: Path) -> None:
        lines = [*_commit(table, version).read_text().splitlines(), *map(json.dumps, more)]
        _commit(table, version).write_text("".join(line + "\n" for line in lines))
        _forget(table)

    return damage


def _all(*damages: Damage) -> Damage:
    return lambda table: [damage(table) for damage in damages]


def _domain(name: str, configuration: Any) -> Damage:
    return _add_line(4, {"domainMetadata": {"domain": name, "configuration": configuration, "removed": False}})


def _clustered(configuration: Any) -> Damage:
    unpartitioned = (
        partial(_edit, version, kind, lambda action: action.update(partitionValues={}))
        for version in range(1, 5)
        for kind in ("add", "remove", "cdc")
    )
    features = _protocol(_READER, [*_WRITER, "domainMetadata", "clustering"])
    return _all(
        _put(0, "metaData", partitionColumns=[]), features, *unpartitioned, _domain("delta.clustering", configuration)
    )


def _tracked(configuration: Any) -> Damage:
    names = {
        "rowTracking__materializedRowIdColumnName": "_i",
        "rowTracking__materializedRowCommitVersionColumnName": "_v",
    }
    features = _protocol(_READER, [*_WRITER, "domainMetadata", "rowTracking"])
    return _all(
        features, _configuration(enableRowTracking="true", **names), _domain("delta.rowTracking", configuration)
    )


def _in_files(pattern: str, change: Callable[[bytes], bytes]) -> Damage:
    return lambda table: [file.write_bytes(change(file.read_bytes())) for file in table.glob(pattern)]


def _gone(pattern: str) -> Damage:
    def damage(table: Path) -> None:
        for file in table.glob(pattern):
            file.unlink()

    return damage


def _log_file(name: str, text: str) -> Damage:
    return lambda table: (table / "_delta_log" / name).write_text(text)


def _vector(**values: Any) -> Damage:
    return partial(_edit, 2, "add", lambda action: action["deletionVector"].update(values))


def _clear(action: dict[str, Any], values: dict[str, Any]) -> None:
    action.clear()
    action.update(values)


def _domains() -> Iterator[tuple[str, Damage]]:
    lists = (
        '[["nosuch"]]', "[[]]", '[["s","nosuch"]]', '[["s"]]', '[["id"],["id"]]', '["id"]', "[[null]]", "[[1]]", "null",
        '[["id","x"]]', '[["id"],["at"],["s","x"],["id"],["id"]]', '[[""]]',
    )  # fmt: skip
    odd: tuple[Any, ...] = ("{}", "[]", "null", "", "{", None, 3, {"a": 1})
    for value in (*(f'{{"clusteringColumns":{text}}}' for text in lists), *odd):
        yield f"clustering {value!r}", _clustered(value)
    marks = ("null", '"x"', "-5", str(_LARGEST), "1e400", "2.5")
    for value in (*(f'{{"rowIdHighWaterMark":{text}}}' for text in marks), *odd):
        yield f"row ids {value!r}", _tracked(value)
    for value in (-1, _LARGEST, "x", 2.5):
        ids = _put(4, "add", baseRowId=value, defaultRowCommitVersion=value)
        yield f"row id {value}", _all(_tracked('{"rowIdHighWaterMark":3}'), ids)
    for tags in ({"ZCUBE_ID": 5, "ZCUBE_ZORDER_BY": "{", "OPTIMIZE_TARGET_SIZE": "x"}, "x", {"ZCUBE_ZORDER_BY": None}):
        tagged = _put(4, "add", tags=tags, clusteringProvider="odd")
        yield f"tags {tags}", _all(_clustered('{"clusteringColumns":[["id"]]}'), tagged)


def _statistics() -> Iterator[tuple[str, Damage]]:
    for count in ("null", "-1", str(_HUGE), str(_LARGEST), "2.5", '"4"', "{}", "1"):
        yield f"numRecords {count}", _put(4, "add", stats=f'{{"numRecords":{count}}}')
    for bounds in (
        '"minValues":{"id":"x"},"maxValues":{"id":[]},"nullCount":{"id":-3}',
        '"minValues":null,"maxValues":3,"nullCount":[]',
        '"minValues":{"at":"soon"},"maxValues":{"at":"9999999-01-01T00:00:00Z"}',
        '"minValues":{"id":1e400},"maxValues":{"id":NaN}',
        '"minValues":{"s":3},"maxValues":{"s":{"x":{"y":1}}}',
        '"tightBounds":"no"',
    ):
        yield f"statistics {bounds}", _put(4, "add", stats=f'{{"numRecords":4,{bounds}}}')
    for text in ("", "{", "null", "[]", "3", '"x"', "\0", '{"numRecords":3}{'):
        yield f"statistics {text!r}", _put(4, "add", stats=text)
    yield "statistics of a vector's file", _put(2, "add", stats='{"numRecords":1,"tightBounds":false}')
    yield "a vector's file without statistics", _without(2, "add", "stats")
    yield "all rows deleted by a vector", _put(2, "add", stats='{"numRecords":2}')


def _files() -> Iterator[tuple[str, Damage]]:
    value: Any
    for value in (
        {}, None, {"day": None}, {"day": ""}, {"day": "soon"}, {"day": "99999999-01-01"}, {"day": 5}, {"day": []},
        {"day": "2024-01-05", "x": "1"}, {"Day": "2024-01-05"}, [],
    ):  # fmt: skip
        yield f"partition values {value}", _put(4, "add", partitionValues=value)
    for version, kind, names in (
        (4, "add", ("path", "partitionValues", "size", "modificationTime", "dataChange")),
        (2, "remove", ("path", "partitionValues", "size", "dataChange", "deletionTimestamp", "extendedFileMetadata")),
        (3, "cdc", ("path", "partitionValues", "size")),
    ):
        for name in names:
            yield f"{kind} without {name}", _without(version, kind, name)
    for number in (None, -1, 0, 1, _LARGEST, -_LARGEST - 1, _HUGE, 2.5, "4"):
        yield f"size {number}", _put(4, "add", size=number)
        yield f"size {number} of a tombstone", _put(2, "remove", size=number)
        yield f"time {number}", _put(4, "add", modificationTime=number)
        yield f"time {number} of a tombstone", _put(2, "remove", deletionTimestamp=number)
        yield f"time {number} of a commit", _put(4, "commitInfo", timestamp=number)
    for path in (
        "", ".", "..", "../../etc/passwd", "/", "/no/such", "file:///no/such", "s3a://nosuch/x", "odd://x/y", "a%zzb",
        "a\0b", "a\nb", "x" * 5000, "%2e%2e/x", "_delta_log/00000000000000000000.json", "day=2024-01-01/1.parquet",
        "http://[::1", "C:\\x",
    ):  # fmt: skip
        yield f"path {path[:30]!r}", _put(4, "add", path=path)
    values: tuple[dict[str, Any], ...] = (
        {"storageType": "x"}, {"storageType": None}, {"pathOrInlineDv": ""}, {"pathOrInlineDv": "!!"},
        {"pathOrInlineDv": None}, {"offset": -1}, {"offset": None}, {"offset": 1 << 62}, {"sizeInBytes": 0},
        {"sizeInBytes": -5}, {"sizeInBytes": 1 << 31}, {"sizeInBytes": None}, {"cardinality": None},
        {"cardinality": -1}, {"cardinality": 3}, {"cardinality": 1 << 62},
        {"storageType": "i", "pathOrInlineDv": "abc"}, {"storageType": "p", "pathOrInlineDv": "/no/such"},
        {"storageType": "p", "pathOrInlineDv": "odd://x/y"},
    )  # fmt: skip
    for change in values:
        yield f"deletion vector {change}", _vector(**change)
    yield "deletion vectors gone", _gone("*.bin")
    yield "deletion vectors empty", _in_files("*.bin", lambda _: b"")
    yield "data files gone", _gone("day=*/*.parquet")
    yield "data files empty", _in_files("day=*/*.parquet", lambda _: b"")
    yield "data files cut", _in_files("day=*/*.parquet", lambda data: data[:-20] + b"x" * 20)
    yield "footers spoiled", _in_files("day=*/*.parquet", lambda data: data[:-60] + b"\xff" * 52 + data[-8:])
    untold = _without(1, "add", "stats")
    yield (
        "footers spoiled, statistics gone",
        _all(
            untold,
            _tracked('{"rowIdHighWaterMark":3}'),
            _in_files("day=*/*.parquet", lambda data: data[:-60] + b"\xff" * 60),
        ),
    )


def _definitions() -> Iterator[tuple[str, Damage]]:
    protocols: dict[str, tuple[Any, ...]] = {
        "of version 0": (None, None, 0, 2), "of version -1": (None, None, -1, 2), "of version 99": (None, None, 99, 99),
        "without versions": (None, None, None, None), "of text": (None, None, "1", "2"),
        "without features": (None, None, 3, 7), "with a writer feature": (_READER, [*_WRITER, "odd"]),
        "with a reader feature": ([*_READER, "odd"], [*_WRITER, "odd"]), "for readers only": (_READER, []),
        "with a null": (_READER, [*_WRITER, None]), "of old versions": (_READER, _WRITER, 1, 2),
        "of huge versions": (None, None, _HUGE, _HUGE), "of 1 and 4": (None, None, 1, 4),
        "of 2 and 6": (None, None, 2, 6),
        "of a catalog": ([*_READER, "catalogManaged"], [*_WRITER, "catalogManaged", "inCommitTimestamp"]),
    }  # fmt: skip
    for name, (reader, writer, *versions) in protocols.items():
        yield f"protocol {name}", _protocol(reader, writer, *versions)
    for columns in (["nosuch"], ["day", "day"], ["DAY"], ["s.x"], ["s"], ["id"], [None], None, "day"):
        yield f"partition columns {columns}", _put(0, "metaData", partitionColumns=columns)
    field = '{"name":"%s","type":"%s","nullable":true,"metadata":{}}'
    for fields in (("id", "odd"), ("", "long"), ("id", "decimal(99,5)")):
        schema = f'{{"type":"struct","fields":[{field % fields}]}}'
        yield f"schema {schema}", _put(0, "metaData", schemaString=schema)
    twice = f'{{"type":"struct","fields":[{field % ("id", "long")},{field % ("ID", "long")}]}}'
    for schema in (
        "", "{", "null", "[]", '{"type":"struct","fields":[]}', '{"type":"struct"}', twice,
        '{"type":"struct","fields":[{"type":"long"}]}', '{"type":"array","elementType":"long","containsNull":true}',
    ):  # fmt: skip
        yield f"schema {schema}", _put(0, "metaData", schemaString=schema)
    identity = {"delta.identity.allowExplicitInsert": False}
    metadata: Any
    for metadata in (
        {"delta.generationExpression": "nosuch + ("}, {"delta.generationExpression": 5}, {"delta.identity.start": 1},
        {"delta.identity.start": "x", "delta.identity.step": None, "delta.identity.highWaterMark": []},
        {**identity, "delta.identity.start": 1, "delta.identity.step": 0},
        {**identity, "delta.identity.start": _HUGE, "delta.identity.step": _HUGE},
        {"delta.columnMapping.id": "x", "delta.columnMapping.physicalName": 5}, {"CURRENT_DEFAULT": "nosuch("},
        {"CURRENT_DEFAULT": 5}, {"delta.invariants": "{"}, {"__CHAR_VARCHAR_TYPE_STRING": "char(x)"},
        {"delta.invariants": '{"expression":{"expression":"id > ("}}'}, {"delta.typeChanges": 5},
        {"delta.typeChanges": [{"fromType": "odd", "toType": "long"}]}, {"comment": 5}, None,
    ):  # fmt: skip
        yield f"column with {metadata}", _column(metadata=metadata)
    yield "column that may be null perhaps", _column(nullable="x")
    odd = ("odd", "true", "", None, "-5", str(_HUGE))
    for name in (
        "checkpointInterval", "logRetentionDuration", "deletedFileRetentionDuration", "setTransactionRetentionDuration",
        "columnMapping__mode", "columnMapping__maxColumnId", "dataSkippingNumIndexedCols", "dataSkippingStatsColumns",
        "constraints__c", "isolationLevel", "checkpointPolicy", "enableInCommitTimestamps", "enableRowTracking",
        "appendOnly", "enableDeletionVectors", "enableChangeDataFeed", "targetFileSize", "autoOptimize__autoCompact",
        "autoOptimize__optimizeWrite", "minReaderVersion", "feature__odd", "enableIcebergCompatV2",
        "compatibility__symlinkFormatManifest__enabled", "parquet__compression__codec",
        "universalFormat__enabledFormats", "enableTypeWidening", "requireCheckpointProtectionBeforeVersion",
        "inCommitTimestampEnablementVersion",
        "dropFeatureTruncateHistory__retentionDuration", "nosuch",
    ):  # fmt: skip
        for value in odd:
            yield f"property {name} = {value!r}", _configuration(**{name: value})
    yield "configuration null", _put(0, "metaData", configuration=None)
    yield "configuration list", _put(0, "metaData", configuration=[])
    yield "table without id", _without(0, "metaData", "id")
    yield "table in CSV", _put(0, "metaData", format={"provider": "csv"})
    yield "table's name a number", _put(0, "metaData", name=5, description=[])


def _logs() -> Iterator[tuple[str, Damage]]:
    infos: tuple[dict[str, Any], ...] = (
        {}, {"operation": None}, {"operation": 5, "operationParameters": [], "operationMetrics": "x"},
        {"userId": 5, "job": "x", "notebook": [], "readVersion": "x", "isBlindAppend": "x", "tags": 5},
        {"operationMetrics": {"a": None, "b": {}}, "operationParameters": {"a": None, "b": [1]}},
    )  # fmt: skip
    for info in infos:
        yield f"commitInfo {info}", partial(_edit, 4, "commitInfo", partial(_clear, values=info))
    transactions: tuple[dict[str, Any], ...] = (
        {"version": None}, {"version": -1}, {"version": "x"}, {"version": _HUGE}, {"appId": None}, {"appId": 5},
        {"lastUpdated": "x"}, {"lastUpdated": _HUGE},
    )  # fmt: skip
    for change in transactions:
        yield f"txn {change}", _put(1, "txn", **change)
    file = {"path": "day=2024-01-05/5.parquet", "dataChange": True}
    yield "unknown actions", _add_line(4, {"odd": {"a": 1}}, {"checkpointMetadata": {"version": 1}}, {"sidecar": {}})
    yield "a second definition", _add_line(0, {"metaData": {"id": "b", "format": {}, "schemaString": "{}"}})
    yield (
        "the same file twice",
        _add_line(4, {"add": {**file, "partitionValues": {}, "size": 3, "modificationTime": 1}}),
    )
    yield "a file added and removed", _add_line(4, {"remove": {**file, "deletionTimestamp": 1}})
    yield "a commit missing", _all(lambda table: _commit(table, 2).unlink(), _forget)
    yield "the first commit missing", _all(lambda table: _commit(table, 0).unlink(), _forget)
    yield "a checkpoint announced", _log_file("_last_checkpoint", '{"version":99,"size":-1,"parts":"x"}')
    yield "a list announced", _log_file("_last_checkpoint", "[]")
    yield "VACUUM's notes odd", _log_file("_last_vacuum_info", '{"latestCommitVersionOutsideOfRetentionWindow":"x"}')
    yield "VACUUM's notes cut", _log_file("_last_vacuum_info", "{")
    for name in (
        "99999999999999999999.json", "odd.json", f"{1:020}.checkpoint.9.parquet", f"{9:020}.{3:020}.compacted.json",
        f"{2:020}.checkpoint.0000000001.0000000000.parquet", f"{3:020}.checkpoint.parquet",
    ):  # fmt: skip
        yield f"{name} in the log", _log_file(name, "x")
    yield (
        "the last version there can be",
        _all(lambda table: _commit(table, 4).rename(_commit(table, _LARGEST)), _forget),
    )
    yield "a commit that is a directory", _all(lambda table: _commit(table, 5).mkdir(), _forget)


DAMAGES: dict[str, Damage] = {
    name: damage
    for damages in (_domains(), _statistics(), _files(), _definitions(), _logs())
    for name, damage in damages
}
