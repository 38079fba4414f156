"""Clones that we and the peer make of each other's tables, which both write to and clean: rows of every version, and
the sources, are those of the model.

A few statements in the usual run; ``HEADWATER_TEST_SECONDS`` asks for stories for so long, and a failure prints the
seed and the statements.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from support.dml.cloning import Cloned
from support.dml.engines import Headwater, rows_without_spark
from support.dml.maintaining import SETTINGS, Other

SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "60"))
pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROPERTIES = "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name'"


@pytest.mark.soak
def test_both_write_to_the_clones_of_each_other(spark: Any, peer: Any, ours: Any, tmp_path: Path) -> None:
    source, mine, theirs, deep = (tmp_path / name for name in ("a s", "mine", "theirs", "deep"))
    spark.sql(
        f"CREATE TABLE delta.`{source}` (id INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({PROPERTIES})"
    )
    spark.sql(f"INSERT INTO delta.`{source}` SELECT CAST(id AS INT), IF(id < 5, 'x y', 'z') FROM range(0, 10, 1, 1)")
    peer.sql(f"DELETE FROM delta.`{source}` WHERE id = 3")
    kept = {file: file.read_bytes() for file in source.rglob("*") if file.is_file()}
    rows = ours(source)
    spark.sql(f"CREATE TABLE delta.`{mine}` SHALLOW CLONE delta.`{source}`")
    spark.sql(f"CREATE TABLE delta.`{deep}` DEEP CLONE delta.`{source}`")
    peer.sql(f"CREATE TABLE delta.`{theirs}` SHALLOW CLONE delta.`{source}`")
    for clone in (mine, theirs, deep):
        assert peer.table(clone) == ours(clone) == rows
        peer.sql(f"DELETE FROM delta.`{clone}` WHERE id = 7")
        spark.sql(f"UPDATE delta.`{clone}` SET id = id + 100 WHERE id IN (1, 8)")
        peer.sql(f"INSERT INTO delta.`{clone}` VALUES (50, 'z')")
        spark.sql(f"DELETE FROM delta.`{clone}` WHERE id = 9")
        wanted = sorted([[n, "x y"] for n in (0, 2, 4, 101)] + [[n, "z"] for n in (5, 6, 108, 50)], key=repr)
        assert peer.table(clone) == ours(clone) == wanted
        peer.sql(f"OPTIMIZE delta.`{clone}` WHERE p = 'z'")
        spark.sql(f"REORG TABLE delta.`{clone}` APPLY (PURGE)")
        peer.sql(f"VACUUM delta.`{clone}`")
        spark.sql(f"VACUUM delta.`{clone}`")
        assert peer.table(clone) == ours(clone) == wanted
        assert sorted(peer.sql(f"SELECT * FROM delta.`{clone}` VERSION AS OF 0"), key=repr) == rows
    assert {file: file.read_bytes() for file in kept} == kept
    assert peer.table(source) == ours(source) == rows


@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_long_stories_of_clones(spark: Any, peer: Any, settings: Any, tmp_path: Path) -> None:
    for name, value in SETTINGS.items():
        peer.sql(f"SET {name} = {value}")
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        seed = random.randrange(10**9)
        with settings(SETTINGS):
            story = Cloned(Headwater(spark), tmp_path / str(seed), seed, [Other(peer.sql)], rows_without_spark)
            for _ in range(30):
                story.step()
            story.end()
    for name in SETTINGS:
        peer.sql(f"RESET {name}")
