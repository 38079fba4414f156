"""Upserts at once: no MERGE fails, and the rows are those of some order of the statements."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.concurrency.upserting import SAME_KEYS, other_keys, same_keys
from support.processes import environment, python

_WRITERS, _EACH = 8, 3
#: Sparks at once, in a long run twice as many; threads in each.
_SPARKS, _THREADS = 2, 2
_PATIENCE_SECONDS = 600
_MANY = max(8, int(os.environ.get("HEADWATER_TEST_EXAMPLES", "0")) // 20)
_LONG = pytest.param(_MANY, marks=pytest.mark.soak, id="many")
_KINDS = {True: "vectors", False: "copy-on-write"}


def _create(rows: Any, name: str, vectors: bool) -> None:
    rows(
        f"CREATE TABLE {name} (k INT, writer INT, n INT) USING delta "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(vectors).lower()}')"
    )


def _create_other(rows: Any, name: str, vectors: bool, writers: int) -> None:
    """A table with a row for each writer, all in one file."""
    _create(rows, name, vectors)
    rows(f"INSERT INTO {name} SELECT CAST(id AS INT), CAST(id AS INT), 0 FROM range(0, {writers}, 1, 1)")


def _check_other(rows: Any, name: str, writers: int, each: int) -> None:
    expected = [(writer, writer, each) for writer in range(writers)]
    expected += [(1000 * (writer + 1) + number, writer, 0) for writer in range(writers) for number in range(each)]
    assert rows(f"SELECT * FROM {name} ORDER BY k") == sorted(expected)
    assert rows(f"DESCRIBE HISTORY {name} LIMIT 1")[0][0] == 1 + writers * each


def _check_same(rows: Any, name: str, writers: int, each: int) -> None:
    """Every statement counted, and the last one wrote all rows."""
    found = rows(f"SELECT k, n, writer FROM {name} ORDER BY k")
    assert [(k, n) for k, n, _ in found] == [(k, writers * each) for k in range(SAME_KEYS)]
    assert len({writer for _, _, writer in found}) == 1
    assert rows(f"DESCRIBE HISTORY {name} LIMIT 1")[0][0] == writers * each


def _at_once(spark: SparkSession, step: Callable[[Any, str, int, int], None], name: str, each: int) -> None:
    def write(writer: int) -> None:
        for number in range(each):
            step(spark, name, writer, number)

    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(write, range(_WRITERS)))


def _kinds(usual: bool) -> pytest.MarkDecorator:
    """With vectors and without, of which the usual run has one."""
    cases = [
        pytest.param(kind, id=name, marks=[] if kind == usual else pytest.mark.soak) for kind, name in _KINDS.items()
    ]
    return pytest.mark.parametrize("vectors", cases)


@pytest.mark.parametrize("each", [_EACH, _LONG])
@_kinds(usual=True)
def test_upserts_of_other_keys(spark: SparkSession, rows: Any, database: str, vectors: bool, each: int) -> None:
    _create_other(rows, "t", vectors, _WRITERS)
    _at_once(spark, other_keys, "t", each)
    _check_other(rows, "t", _WRITERS, each)


@pytest.mark.parametrize("each", [_EACH, _LONG])
@_kinds(usual=False)
def test_upserts_of_the_same_keys(spark: SparkSession, rows: Any, database: str, vectors: bool, each: int) -> None:
    _create(rows, "t", vectors)
    _at_once(spark, same_keys, "t", each)
    _check_same(rows, "t", _WRITERS, each)


@pytest.mark.timeout(1800)  # the Sparks start first, however busy the machine is
@pytest.mark.parametrize(
    ("vectors", "count", "each"),
    [
        pytest.param(True, _SPARKS, 3, id="vectors"),
        pytest.param(True, 2 * _SPARKS, _MANY, marks=pytest.mark.soak, id="vectors-many"),
        pytest.param(False, 2 * _SPARKS, _MANY, marks=pytest.mark.soak, id="copy-on-write-many"),
    ],
)
def test_upserts_of_several_sparks(rows: Any, tmp_path: Path, vectors: bool, count: int, each: int) -> None:
    writers = count * _THREADS
    other, same = (f"delta.`{tmp_path}/{name}`" for name in ("other", "same"))
    _create_other(rows, other, vectors, writers)
    _create(rows, same, vectors)
    sparks = []
    try:
        for number in range(count):
            command = python("support.concurrency.upserting", str(number), str(tmp_path), str(_THREADS), str(each))
            log = (tmp_path / f"log{number}").open("w")
            sparks.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment()))
        for number, process in enumerate(sparks):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", (tmp_path / f"log{number}").read_text()[-4000:]
        (tmp_path / "start").touch()
        told = [process.communicate(timeout=_PATIENCE_SECONDS)[0] for process in sparks]
    finally:
        for process in sparks:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert told == [""] * count
    _check_other(rows, other, writers, each)
    _check_same(rows, same, writers, each)
