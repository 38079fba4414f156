"""``headwater describe | history | detail | log | diff | files``: what they say, of whom, and how they fail."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest
from typer.testing import CliRunner

from headwater.basics.errors import HeadwaterError
from headwater.cli import locations
from headwater.cli import main as cli
from support.commits import write_log
from support.paths import SHARED, TESTS

_ENVIRONMENT = {"PATH": "", "PYTHONPATH": str(TESTS.parent / "python")}
COMMANDS = ("describe", "history", "detail", "log", "diff", "files")
TABLES = SHARED / "tables"


def field(name: str, kind: Any, physical: str | None = None, **more: Any) -> dict[str, Any]:
    metadata = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": physical} if physical else {}
    return {"name": name, "type": kind, "nullable": more.pop("nullable", True), "metadata": {**metadata, **more}}


def metadata(*fields: dict[str, Any], by: tuple[str, ...] = (), **configuration: str) -> dict[str, Any]:
    schema = json.dumps({"type": "struct", "fields": list(fields)})
    named = {f"delta.{name.replace('__', '.')}": value for name, value in configuration.items()}
    form = {"id": "i", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}
    return {"metaData": {**form, "partitionColumns": list(by), "configuration": named, "createdTime": 1}}


def add(name: str, rows: int, size: int, vector: dict[str, Any] | None = None, **values: str) -> dict[str, Any]:
    statistics = {"numRecords": rows, "minValues": {"c-a": rows}, "maxValues": {"c-a": rows + 1}}
    action = {"path": name, "size": size, "partitionValues": values, "modificationTime": 1, "dataChange": True}
    return {"add": {**action, "stats": json.dumps(statistics), **({"deletionVector": vector} if vector else {})}}


def remove(name: str) -> dict[str, Any]:
    return {"remove": {"path": name, "deletionTimestamp": 1, "dataChange": True}}


def protocol(*more: str) -> dict[str, Any]:
    both = ["columnMapping", "deletionVectors"]
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {"protocol": {**versions, "readerFeatures": both, "writerFeatures": [*both, *more]}}


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table of three versions whose second changes all that a commit can change."""
    vector = {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
    }
    day = field("day", "string", "c-day")
    first = metadata(
        field("a", "integer", "c-a"), field("gone", "string", "c-g"), day, by=("day",), columnMapping__mode="name"
    )
    wide = field("A b", "long", "c-a", comment="the id", nullable=False)
    inner = {"type": "struct", "fields": [field("x", "double", "c-x")]}
    second = metadata(
        day, wide, field("s", {"type": "array", "elementType": inner, "containsNull": True}, "c-s"), by=("day",),
        columnMapping__mode="name", appendOnly="false",
    )  # fmt: skip
    metrics = {"numTargetRowsInserted": "1200", "numTargetRowsDeleted": "1", "numTargetFilesAdded": "1"}
    info = {"operation": "MERGE", "operationMetrics": {**metrics, "executionTimeMs": "65000"}, "userName": "me"}
    return write_log(
        tmp_path / "t",
        [protocol(), first, add("f1", 10, 100, **{"c-day": "x"}), add("f2", 20, 200, **{"c-day": "y"})],
        [
            {"commitInfo": info}, protocol("appendOnly"), second, {"txn": {"appId": "stream", "version": 7}},
            remove("f1"), add("f1", 10, 100, {**vector, "cardinality": 6}, **{"c-day": "x"}),
            add("f3", 30, 3000, **{"c-day": "x"}),
        ],
        [{"commitInfo": {"operation": "DELETE"}}, remove("f2"), {"ours": {"more": 1}}],
    )  # fmt: skip


def run(*arguments: Any) -> Any:
    # Where the tests themselves run for a terminal, its width is none of the pipe's.
    result = CliRunner().invoke(cli.app, [*map(str, arguments)], env={"COLUMNS": None}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in arguments else result.stdout


def test_what_they_say(table: str) -> None:
    described = run("describe", table, "--json")
    assert [(column["name"], column["type"], column["nullable"]) for column in described["columns"]] == [
        ("day", "string", True), ("A b", "bigint", False), ("s", "array<struct<x:double>>", True)
    ]  # fmt: skip
    assert (described["version"], described["partitionColumns"], described["rows"]) == (2, ["day"], 34)
    assert described["columns"][0]["partition"] is True
    assert described["schema"]["fields"][1]["type"] == "long"
    assert [row["operation"] for row in run("history", table, "--json")] == ["DELETE", "MERGE", None]
    assert "1,200 rows inserted, 1 row deleted, 1 file added, 1 min 5 s" in run("history", table)
    assert len(run("history", table, "--limit", 2, "--json")) == 2
    detail = run("detail", table, "--version", 1, "--json")
    assert [detail[name] for name in ("version", "numFiles", "sizeInBytes", "minReaderVersion")] == [1, 3, 3300, 3]
    assert [next(iter(action)) for action in run("log", table, "--version", 2, "--json")] == [
        "commitInfo", "remove", "ours"
    ]  # fmt: skip
    assert [(file["kind"], file["version"]) for file in run("log", table, "--json")][:2] == [
        ("commit", "0"),
        ("commit", "1"),
    ]
    files = run("files", table, "--json")
    assert [(f["path"], f["rows"], f["deletedRows"], f["partition"]) for f in files["files"]] == [
        ("f1", 4, 6, {"day": "x"}), ("f3", 30, 0, {"day": "x"})
    ]  # fmt: skip
    some = run("files", table, "--where", "`A b` = 30", "--json")
    assert ([f["path"] for f in some["files"]], some["skippedFiles"]) == (["f3"], 1)
    assert "1 file skipped" in run("files", table, "--where", "`A b` = 30")
    assert [f["path"] for f in run("files", table, "--version", 0, "--limit", 1, "--json")["files"]] == ["f1"]


def test_a_difference(table: str) -> None:
    found = run("diff", table, 0, 1, "--json")
    assert found["columns"] == {
        "added": {"s": "array<struct<x:double>>", "s.element.x": "double"},
        "removed": {"gone": "string"},
        "renamed": {"a": "`A b`"},
        "changed": {"`A b`": {"type": ["int", "bigint"], "nullable": [True, False], "comment": [None, "the id"]}},
        "reordered": True,
    }
    assert found["properties"] == {"added": {"delta.appendOnly": "false"}, "removed": {}, "changed": {}}
    assert found["protocol"]["added"] == {"feature appendOnly": "supported"}
    assert found["transactions"]["added"] == {"stream": 7}
    assert found["files"] == {
        "added": 1, "addedBytes": 3000, "removed": 0, "removedBytes": 0, "withOtherDeletedRows": 1
    }  # fmt: skip
    assert found["sums"] == {"files": [2, 3], "bytes": [300, 3300], "rows": [30, 54]}
    text = run("diff", table, 0, 1)
    for line in ("+ delta.appendOnly: false", "~ a is now `A b`", "- gone: string", "~ 1 file with other deleted rows"):
        assert f"  {line}" in text
    assert "- 1 file (200 B)" in run("diff", table)
    assert "no difference" in run("diff", table, 2)
    assert run("diff", table, 1, 1, "--json")["sums"]["rows"] == [54, 54]


def test_nothing_of_a_log_moves_a_terminal(tmp_path: Path) -> None:
    odd = "a\x1b[31m[red]b[/red]\u202ec\r\nd\x9b<b>"
    odder = f"{odd}\ud800"  # which no reader takes for the name of a column
    info = {"operation": odder, "userName": odder, "userMetadata": odder, "operationParameters": {odder: odder}}
    path = write_log(
        tmp_path / "t[bold]x",
        [protocol(), metadata(field(odd, "string", comment=odd), field("p", "string"), by=("p",), **{f"x.{odd}": odd})],
        [{"commitInfo": info}, add(odd, 1, 1, p=odd), {"txn": {"appId": odd, "version": 1}}, {odder: {"path": odder}}],
    )
    for command in (*COMMANDS, "health"):
        for more in ([], ["--version", "1"] if command == "log" else ["--limit", "5"] if command == "files" else []):
            text = run(command, path, *more)
            moving = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cs", "Cf")} - {"\n"}
            assert not moving, (command, moving)
    assert "[red]b[/red]" in run("describe", path)
    assert run("describe", path, "--json")["columns"][0]["name"] == odd
    assert run("history", path, "--json")[0]["userMetadata"] == odder


def test_shared_tables() -> None:
    if not TABLES.is_dir():
        pytest.skip(f"the shared tables are not at {TABLES}")
    expected = json.loads((TABLES / "expected.json").read_text())
    for name, entry in expected.items():
        if "error" in entry:
            continue
        path = TABLES / name
        described = run("describe", path, "--json")
        assert described["rows"] in (None, entry["rows"]), name
        sums = run("diff", path, described["version"], "--json")["sums"]
        assert sums["rows"] == [described["rows"]] * 2, name


@pytest.mark.parametrize(
    ("arguments", "condition"),
    [
        (["describe", "NONE"], "DELTA_TABLE_NOT_FOUND"),
        (["log", "NONE"], "DELTA_TABLE_NOT_FOUND"),
        (["log", "NONE", "--version", "1"], "DELTA_TABLE_NOT_FOUND"),
        (["files", "TABLE", "--version", "9"], "DELTA_VERSION_NOT_FOUND"),
        (["log", "TABLE", "--version", "9"], "DELTA_VERSION_NOT_FOUND"),
        (["diff", "TABLE", "2", "1"], "DELTA_VERSION_NOT_FOUND"),
        (["detail", "TABLE", "--timestamp", "yesterday"], "DELTA_TIMESTAMP_INVALID"),
        (["detail", "TABLE", "--timestamp", "1999-01-01"], "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"),
        (["history", "odd+store://bucket/t?secret=s3cr3t"], "HEADWATER_COMMAND_NEEDS_FILE_SYSTEM"),
        (["inspect", "main.sales.orders"], "HEADWATER_COMMAND_NEEDS_PATH"),
        (["history", "no_folder"], "HEADWATER_COMMAND_NEEDS_PATH"),
        (["detail", "sales.`or ders`"], "HEADWATER_COMMAND_NEEDS_PATH"),
        (["health", "odd+store://me:s3cr3t@bucket/t"], "HEADWATER_COMMAND_NEEDS_FILE_SYSTEM"),
    ],
)
def test_a_mistake_is_one_message(table: str, arguments: list[str], condition: str, monkeypatch, capsys) -> None:
    places = {"TABLE": table, "NONE": f"{table}/none"}
    monkeypatch.setattr(sys, "argv", ["headwater", *(places.get(argument, argument) for argument in arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert str(ended.value.code).startswith(f"headwater: [{condition}] ")
    assert "s3cr3t" not in str(ended.value.code)
    assert capsys.readouterr().out == ""


def test_a_wrong_command_line_is_another_exit_code(table: str) -> None:
    for arguments in (
        ["files"],
        ["files", table, "--version", "-1"],
        ["detail", table, "--version", "1", "--timestamp", "2024-01-01"],
    ):
        assert CliRunner().invoke(cli.app, arguments).exit_code == 2


def test_times_of_versions(table: str) -> None:
    assert locations.milliseconds_of("1970-01-01T01:00:00+01:00") == locations.milliseconds_of("1970-01-01") == 0
    assert locations.milliseconds_of("1970-01-01T00:00:00.001Z") == 1
    newest = run("history", table, "--json")[0]["timestamp"]
    assert run("detail", table, "--timestamp", newest, "--json")["version"] == 2


def test_other_file_systems(table: str) -> None:
    """One that only fsspec has, by its URI."""
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(table, "/bucket/t", recursive=True)
    for path in ("memory://bucket/t", "memory://bucket/t/"):
        assert [f["path"] for f in run("files", path, "--json")["files"]] == ["f1", "f3"]
        assert run("detail", path, "--json")["location"] == "memory://bucket/t"
    assert run("health", "memory://bucket/t", "--json")["files"]["files"] == 2
    with pytest.raises(HeadwaterError, match="There is no Delta table"):
        run("history", "memory://bucket/none")
    assert isinstance(pafs.FileSystem.from_uri(f"file://{table}")[0], pafs.LocalFileSystem)


def test_no_spark_and_no_end_of_a_pipe(table: str) -> None:
    """PySpark is not imported, and a reader that has enough ends the command, not with an error."""
    program = "import sys; from headwater.cli.start import main\ntry: main()\nfinally: assert 'pyspark' not in "
    program += "sys.modules"
    command = [sys.executable, "-c", program, "log", table, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_ENVIRONMENT) as piped:
        assert piped.stdout is not None
        assert piped.stderr is not None
        piped.stdout.close()
        assert piped.stderr.read() == b""
