"""Damaged tables: whatever bytes a log has, the answer is one of the table's or an error that names the file.

Each file of a small table with everything in its log (commits, a compacted log, checkpoints with and without
sidecars, ``_last_checkpoint``, checksums, deletion vectors) is spoiled in random ways, and single fields of the log in
named ways (:mod:`support.damages`); then every statement that acts on a table is asked for. What must not come is an
error nobody foresaw, which is what a Python exception becomes. ``HEADWATER_TEST_EXAMPLES`` asks for another number of
random ones, drawn again; a soak run asks for every statement with every damage.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from typer.testing import CliRunner

from headwater.cli import main as cli
from headwater.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.checksums import write_checksum
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    serialize,
)
from headwater.statements.commit.opening import CACHE
from headwater.stores import LocalStore
from support.damages import DAMAGES
from support.every_statement import READERS, STATEMENTS, ask
from support.inline_vectors import inline

EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "120"))
SEED = None if "HEADWATER_TEST_EXAMPLES" in os.environ else 11

_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}},
        {"name": "day", "type": "date", "nullable": True, "metadata": {"comment": "of the week"}},
        {
            "name": "s",
            "type": {
                "type": "struct",
                "fields": [{"name": "x", "type": "decimal(10,2)", "nullable": True, "metadata": {}}],
            },
            "nullable": True,
            "metadata": {},
        },
    ],
}
_FEATURES = frozenset({"deletionVectors", "v2Checkpoint"})
_CONFIGURATION = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.checkpointInterval": "100",
}
#: Errors of what was asked, or of a table that is another one than it was: they name versions, times and features.
_ABOUT_THE_READ = {
    "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE",
    "DELTA_INVALID_PROTOCOL_VERSION",
    "DELTA_INVALID_SCHEMA",
    "DELTA_MISSING_CHANGE_DATA",
    "DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE",  # whatever was damaged, it reads as a table without partitions
    "DELTA_MISSING_COMMIT_TIMESTAMP",
    "DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
    "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
    "DELTA_VERSION_NOT_FOUND",
}
_ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "at": pa.array([None] * 4, pa.timestamp("us", "UTC")),
        "s": pa.array([None] * 4, pa.struct([("x", pa.decimal128(10, 2))])),
    }
)
#: What no text for users has: Python's exceptions and tracebacks, names of a rewrite's pieces.
_INTERNAL = re.compile(r"\b[A-Z]\w*(Error|Exception): |Traceback|hw_plan|hw_expr|NoneType")
#: Odd domains by which a table can be clustered.
_USABLE = {
    f"clustering {text!r}"
    for text in (
        '{"clusteringColumns":[["id"],["id"]]}',
        '{"clusteringColumns":[["id"],["at"],["s","x"],["id"],["id"]]}',
        "{}",
    )
}
_DEEP = '{"add":' + '{"a":' * 100_000 + "1" + "}" * 100_001
_ODD: list[Any] = [
    None, True, False, 0, -1, 3, 3.5, 1 << 31, 1 << 63, -(1 << 70), float("nan"), float("inf"), "", "5", "odd", "true",
    "\ud800", "a\0b", "../../x", "2024-13-45", [], {}, [None], ["x"], {"a": 1}, {"path": "x"}, [[]],
]  # fmt: skip


def _statistics(low: int, high: int) -> str:
    at = "2024-01-01T00:00:00.000Z"
    bounds = {"id": low, "at": at, "s": {"x": 1.25}}, {"id": high, "at": at, "s": {"x": 7.5}}
    nulls = {"id": 0, "at": 1, "s": {"x": 0}}
    return json.dumps({"numRecords": 4, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": nulls})


def _add(path: Path, number: int, vector: Any = None) -> AddFile:
    name = f"day=2024-01-0{number}/{number}.parquet"
    (path / name).parent.mkdir(exist_ok=True)
    pq.write_table(_ROWS, path / name)
    values, statistics = {"day": f"2024-01-0{number}"}, _statistics(number, number + 5)
    return AddFile(
        name, values, (path / name).stat().st_size, 1_700_000_000_000, True, statistics, deletion_vector=vector
    )


def _table(path: Path, checkpoint: str | None) -> Path:
    path.mkdir(parents=True)
    log = path / "_delta_log"
    log.mkdir()
    policy = {"delta.checkpointPolicy": "v2"} if checkpoint == "v2" else {}
    (vector,) = deletion_vectors.write_file([BitMap64([1, 2])], str(path), LocalStore())
    versions: list[list[Any]] = [
        [
            CommitInfo({"operation": "CREATE TABLE", "operationParameters": {"isManaged": "false"}, "timestamp": 1}),
            Protocol(3, 7, _FEATURES, _FEATURES | {"changeDataFeed"}),
            Metadata("the-id", json.dumps(_SCHEMA), ("day",), {**_CONFIGURATION, **policy}, created_time=1),
        ],
        [
            CommitInfo({"operation": "WRITE", "job": {"jobId": "1"}, "readVersion": 0, "isBlindAppend": True}),
            *(_add(path, number) for number in (1, 2, 3)),
            SetTransaction("app", 7, 1),
        ],
        [
            CommitInfo({"operation": "DELETE", "operationMetrics": {"numDeletedRows": "3"}}),
            RemoveFile("day=2024-01-01/1.parquet", 5, True, True, {"day": "2024-01-01"}, 4),
            _add(path, 1, vector),
            DomainMetadata("mine", "{}"),
        ],
        [
            CommitInfo({"operation": "UPDATE"}),
            RemoveFile("day=2024-01-02/2.parquet", 5, True, True, {"day": "2024-01-02"}, 4),
            _add(path, 4, inline(BitMap64([0]))),
            AddCDCFile("_change_data/c.parquet", {"day": "2024-01-02"}, 4),
        ],
        [CommitInfo({"operation": "WRITE"}), _add(path, 5)],
    ]
    for version, actions in enumerate(versions):
        (log / f"{version:020d}.json").write_bytes(serialize(actions))
        if checkpoint and version == 3:
            write_checkpoint(load_snapshot(str(path), LocalStore()))
    snapshot = load_snapshot(str(path), LocalStore())
    write_checksum(str(path), LocalStore(), snapshot.version, snapshot.checksum())
    if checkpoint is None:  # what it holds is what the two commits hold
        (log / f"{1:020d}.{2:020d}.compacted.json").write_bytes(serialize([a for v in versions[1:3] for a in v[1:]]))
    return path


def _ask(path: Path, names: Iterable[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Ask for statements: the name of each, of a call it takes, and the answer."""
    CACHE.forget(str(path))
    for name in names:
        for call, answer in ask(str(path), name).items():
            yield name, call, answer


def _check(path: Path, said: str, answer: dict[str, Any]) -> None:
    """An answer is a result, or an error that is foreseen, without names of Python's, of a rewrite or of a library."""
    error = answer.get("error")
    if error is None:
        return
    said = f"{said} gave {error}"
    assert error["condition"] != "DELTA_INTERNAL_ERROR", said
    assert not _INTERNAL.search(error["text"]), said


def _spoil_bytes(data: bytes, draw: random.Random) -> bytes:
    position = draw.randrange(len(data))
    end = min(len(data), position + draw.choice((1, 4, 100)))
    garbage = draw.randbytes(draw.choice((1, 4, 100)))
    return draw.choice((
        b"", data[:position], data[position:], data[:position] + data[end:],
        data[:position] + garbage + data[position:],
        data[:position] + garbage + data[position + len(garbage) :], garbage, b"\0" * len(data), data + data,
        data[:position] + bytes([data[position] ^ (1 << draw.randrange(8))]) + data[position + 1 :],
    ))  # fmt: skip


def _spoil_json(text: str, draw: random.Random) -> str:
    """The text, of JSON lines, with one value anywhere in it, or in JSON inside of it, replaced or gone."""
    lines = text.splitlines()
    number = draw.randrange(len(lines))
    odd_lines = ("[]", "3", "null", '"text"', "{}", _DEEP, _DEEP.replace("{", "[").replace("}", "]"), "{", "\ufeff{}")
    if draw.random() < 0.15:
        lines[number] = draw.choice(odd_lines)
    else:
        value = json.loads(lines[number])
        _replace(value, draw)
        lines[number] = json.dumps(value)
    return "\n".join(lines)


def _replace(value: Any, draw: random.Random) -> None:
    places: list[tuple[Any, Any]] = []

    def walk(inner: Any) -> None:
        for key in list(inner if isinstance(inner, dict) else range(len(inner))):
            places.append((inner, key))
            if isinstance(inner[key], (dict, list)):
                walk(inner[key])

    walk(value)
    where, key = draw.choice(places)
    inside = where[key]
    if isinstance(inside, str) and inside.startswith("{") and draw.random() < 0.7:
        parsed = json.loads(inside)
        if parsed:
            _replace(parsed, draw)
            where[key] = json.dumps(parsed)
            return
    if isinstance(where, dict) and draw.random() < 0.2:
        del where[key]
    else:
        where[key] = draw.choice(_ODD)


def _spoil_columns(file: Path, draw: random.Random) -> None:
    """A Parquet file that is whole, and of another schema."""
    table = pq.read_table(file)
    position = draw.randrange(table.num_columns)
    kind = draw.choice((pa.string(), pa.int64(), pa.struct([("path", pa.int64())]), pa.list_(pa.string()), None))
    if kind is None:
        table = table.remove_column(position)
    else:
        value = (
            {"path": 3} if pa.types.is_struct(kind) else ["x"] if pa.types.is_list(kind) else pa.scalar(1).cast(kind)
        )
        other = (
            pa.array([value] * table.num_rows, kind)
            if not isinstance(value, pa.Scalar)
            else pa.repeat(value, table.num_rows)
        )
        table = table.set_column(position, table.column_names[position], other)
    pq.write_table(table, file)


def _spoiled(table: Path, draw: random.Random) -> str:
    """Spoil one file of the table; what was done, in words."""
    files = sorted(p for p in (*table.glob("_delta_log/**/*"), *table.glob("*.bin")) if p.is_file())
    file = draw.choice(files)
    data = file.read_bytes()
    as_json = file.suffix in (".json", ".crc") or file.name == "_last_checkpoint"
    if as_json and draw.random() < 0.8:
        file.write_bytes(_spoil_json(data.decode(), draw).encode("utf-8", "surrogatepass"))
    elif file.suffix == ".parquet" and draw.random() < 0.4:
        _spoil_columns(file, draw)
    else:
        file.write_bytes(_spoil_bytes(data, draw))
    return f"{file.relative_to(table)}: {file.read_bytes()[:2000]!r}"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    home = tmp_path_factory.mktemp("damaged")
    return [_table(home / str(kind), kind) for kind in (None, "classic", "v2")]


#: What a whole table refuses: what it has no use for, or what is asked for is not of this table.
_REFUSED = {
    "a time": "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
    "restore a time": "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
    "optimize full": "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
    "generate": "DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS",
    "drop feature for good": "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD",
}


def test_a_whole_table_answers(tables: list[Path], tmp_path: Path) -> None:
    for table in tables:
        for number, name in enumerate(STATEMENTS):
            copy = tmp_path / f"{table.name}{number}"
            shutil.copytree(table, copy)
            for asked, call, answer in _ask(copy, [name]):
                error = answer.get("error", {}).get("condition")
                assert error in (None, _REFUSED.get(asked)), (table, asked, answer)
                if call == "scan" and asked == "scan":
                    assert len(answer["result"]["files"]) == 2
                elif call == "describe_history":
                    assert len(answer["result"]["rows"]) == 5


@pytest.mark.parametrize("part", range(4))
def test_whatever_a_file_holds(tables: list[Path], tmp_path: Path, part: int) -> None:
    for example in range(part, EXAMPLES, 4):
        draw = random.Random(None if SEED is None else SEED * 100_000 + example)
        copy = tmp_path / f"t{example}"
        shutil.copytree(draw.choice(tables), copy)
        done = _spoiled(copy, draw)
        readers = [name for name in READERS if name not in ("table_changelog", "stream", "stream of changes")]
        for asked, call, answer in _ask(copy, [*readers, *draw.sample(STATEMENTS, 6)]):
            said = f"example {example}: {asked} ({call}) of {done}"
            _check(copy, said, answer)
            error = answer.get("error")
            if error is not None and asked in readers:
                assert (
                    str(copy) in error["text"]
                    or "inline in the log" in error["text"]
                    or error["condition"] in _ABOUT_THE_READ
                ), f"{said} gave {error}"


def _damaged(tables: list[Path], home: Path, number: int, names: Sequence[str]) -> None:
    name = list(DAMAGES)[number]
    copy = home / f"d{number}"
    shutil.copytree(tables[0], copy)
    DAMAGES[name](copy)
    for asked, call, answer in _ask(copy, names):
        _check(copy, f"{asked} ({call}) of a table with {name}", answer)


def test_what_a_foreign_log_says(tables: list[Path], tmp_path: Path) -> None:
    """Each damage with some of the statements, each statement with some of the damages."""
    for number in range(len(DAMAGES)):
        order = random.Random(number).sample(STATEMENTS, len(STATEMENTS))
        _damaged(tables, tmp_path, number, order[:5])


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_what_a_foreign_log_says_to_every_statement(tables: list[Path], tmp_path: Path, part: int) -> None:
    for number in range(part, len(DAMAGES), 20):
        _damaged(tables, tmp_path, number, random.Random(number).sample(STATEMENTS, len(STATEMENTS)))


def test_a_curve_is_of_columns_with_bounds(tables: list[Path], tmp_path: Path) -> None:
    """What the domain of clustering names reaches no query, unless it is a column that a query can have."""
    for number, name in enumerate(DAMAGES):
        if name.startswith("clustering"):
            copy = tmp_path / f"c{number}"
            shutil.copytree(tables[0], copy)
            DAMAGES[name](copy)
            (answer,) = (answer for _, _, answer in _ask(copy, ["optimize"]))
            condition = answer.get("error", {}).get("condition")
            usable = name in _USABLE
            refused = {"HEADWATER_CLUSTERING_UNREADABLE", "DELTA_INVALID_COMMIT"}
            assert condition is None if usable else condition in refused, (name, answer)


def test_clustering_that_cannot_be_read_is_named_and_mended(tables: list[Path], tmp_path: Path) -> None:
    """What describes such a table says what to do, and that helps."""
    mended = 0
    for number, (name, damage) in enumerate(DAMAGES.items()):
        if not name.startswith("clustering") or name in _USABLE:
            continue
        for mend in ("cluster by", "cluster by none"):
            copy = tmp_path / f"{mend}{number}"
            shutil.copytree(tables[0], copy)
            damage(copy)
            for _, call, answer in _ask(copy, ["describe detail", "show create table", "optimize"]):
                text = answer["error"]["text"]
                assert "ALTER TABLE … CLUSTER BY" in text or "Restore the file" in text, (name, call, text)
            answers = [answer for _, _, answer in _ask(copy, [mend])]
            if any("error" in answer for answer in answers):  # the log itself cannot be read
                assert "Restore the file" in answers[0]["error"]["text"]
                continue
            mended += 1
            for asked, call, answer in _ask(copy, ["describe detail", "show create table"]):
                assert "error" not in answer, (name, asked, call, answer)
    assert mended > 20


def test_commands_of_damaged_tables(tables: list[Path], tmp_path: Path) -> None:
    """The commands that need no Spark print something, or fail with what the damage is."""
    for number, (name, damage) in enumerate(DAMAGES.items()):
        copy = tmp_path / f"t{number}"
        shutil.copytree(tables[0], copy)
        damage(copy)
        for command in ("health", ("files", "diff", "log", "describe", "history", "detail")[number % 6]):
            more = ["--version", "4"] if command == "log" else []
            asked = CliRunner().invoke(cli.app, [command, str(copy), "--json", *more])
            said = f"{command} of a table with {name}"
            if asked.exit_code == 0:
                assert json.loads(asked.stdout) is not None, said
            else:
                assert isinstance(asked.exception, HeadwaterError), f"{said} gave {asked.exception!r}"
                assert not _INTERNAL.search(asked.exception.text), f"{said} gave {asked.exception}"
