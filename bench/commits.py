"""The cases of commits: concurrent appends and upserts, and a reader of a long log without a checkpoint.

Appends are one-row INSERTs by several sessions of one Spark, each in a thread of its own; both sides write checkpoints
at the same interval. Upserts are concurrent MERGEs into a small table with deletion vectors; a loser retries until it
wins. The long log has one commit for each file; only the log is generated, not the files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from bench import big_log
from bench.cases import Against, Bench, Case, Timed
from bench.sparks import PEER

_APPENDS = 24
_UPSERTS, _UPSERTERS = 32, 8
_TAIL = 1000
_ROWS_PER_FILE = 100
_NO_CHECKPOINT = 1_000_000


def _appends(writers: int) -> Timed:
    """So many writers make the appends of a round in a table of its own; seconds for all of them."""

    def timed(bench: Bench, side: str, number: int) -> float:
        path = bench.path(f"appends{writers}-{number}", side)
        spark = bench.spark(side)
        spark.run(
            f"CREATE TABLE delta.`{path}` (id BIGINT, name STRING, amount DOUBLE) USING delta "
            "TBLPROPERTIES ('delta.checkpointInterval' = '10')"
        )
        text = f"INSERT INTO delta.`{path}` VALUES ({number}, 'a name', 1.5)"
        try:
            return float(spark.call("appends", sql=text, writers=writers, each=_APPENDS // writers)["seconds"])
        finally:
            shutil.rmtree(path, ignore_errors=True)

    return timed


def _upserts(same: bool) -> Timed:
    """The upserts of a round, in a table of its own; seconds for all of them."""

    def timed(bench: Bench, side: str, number: int) -> float:
        path = bench.path(f"upserts-{same}-{number}", side)
        spark = bench.spark(side)
        spark.run(
            f"CREATE TABLE delta.`{path}` (k INT, n INT) USING delta "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        spark.run(f"INSERT INTO delta.`{path}` SELECT CAST(id AS INT), 0 FROM range(0, {_UPSERTERS}, 1, 1)")
        try:
            each = _UPSERTS // _UPSERTERS
            return float(spark.call("upserts", path=str(path), writers=_UPSERTERS, each=each, same=same)["seconds"])
        finally:
            shutil.rmtree(path, ignore_errors=True)

    return timed


def make_tail(table: Path, commits: int) -> None:
    """A log of so many commits of one file each, whose ids are ``_ROWS_PER_FILE`` consecutive numbers."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    metadata = {
        "id": "8f3c1c54-0000-4000-8000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {"delta.checkpointInterval": str(_NO_CHECKPOINT)},
        "createdTime": 1_700_000_000_000,
    }
    state = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    for version in range(commits):
        low, high = version * _ROWS_PER_FILE, (version + 1) * _ROWS_PER_FILE - 1
        stats = {
            "numRecords": _ROWS_PER_FILE,
            "minValues": {"id": low},
            "maxValues": {"id": high},
            "nullCount": {"id": 0},
        }
        info = {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE", "operationParameters": {}}
        add = {
            "path": _file(version),
            "partitionValues": {},
            "size": 1000,
            "modificationTime": 1_700_000_000_000 + version,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        actions = [{"commitInfo": info}, *(state if version == 0 else ()), {"add": add}]
        (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def _file(number: int) -> str:
    return f"part-{number:05}.parquet"


def _tail(bench: Bench) -> Path:
    return bench.directory / "tail"


def _prepare_tail(bench: Bench, side: str) -> None:
    if not _tail(bench).exists():
        make_tail(_tail(bench), _TAIL)


def _load_tail(bench: Bench, side: str, number: int) -> float:
    """Plan a query for one row of a table this Spark has never seen."""
    copy = bench.path(f"tail{number}", side)
    big_log.copy_of(_tail(bench), copy)
    wanted = (number * 7919 + 31) % _TAIL
    (copy / _file(wanted)).touch()
    query = f"SELECT * FROM delta.`{copy}` WHERE id = {wanted * _ROWS_PER_FILE + 17}"
    answer = bench.spark(side).call("plan", sql=query)
    if answer["files"] != 1:
        raise AssertionError(f"{side} reads {answer['files']} files for a query of one")
    return float(answer["seconds"])


def cases() -> Iterator[Case]:
    """The cases."""
    for writers in (1, 4):
        by = "1 writer" if writers == 1 else f"{writers} writers"
        yield Case(
            f"appends-{writers}",
            f"{_APPENDS} one-row appends by {by}",
            (Against(PEER, ratio=0.5),),
            _appends(writers),
            7,
            warm_up=3,
        )
    for same in (False, True):
        yield Case(
            f"upserts-{'same' if same else 'other'}",
            f"{_UPSERTS} upserts by {_UPSERTERS} writers, {'a row in common' if same else 'other rows each'}",
            (Against(PEER, ratio=0.33),),
            _upserts(same),
            5,
            warm_up=1,
        )
    yield Case(
        "log-tail",
        f"plan a point query, {_TAIL:,} commits, no checkpoint",
        (Against(PEER, ratio=0.2),),
        _load_tail,
        7,
        _prepare_tail,
        warm_up=3,
    )
