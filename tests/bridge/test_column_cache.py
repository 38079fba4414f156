"""The cache on disk of large checkpoints' columns, as the settings of Spark's start bring it to the handler."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.column_cache import FEWEST_BYTES
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol, serialize
from headwater.protocol.file_names import checkpoint_name, commit_name
from headwater.stores import LocalStore
from support.sparks.running import Sparks

pytestmark = pytest.mark.spark

_FILES = 60_000
_PROMETHEUS = "spark.metrics.conf.*.sink.prometheusServlet"
_SCRAPED = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    f"{_PROMETHEUS}.class": "org.apache.spark.metrics.sink.PrometheusServlet",
    f"{_PROMETHEUS}.path": "/metrics/prometheus",
}
_SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def _write(table: Path) -> None:
    """The log of a table with a checkpoint that is large enough; no query needs its files."""
    draw, log = random.Random(1), table / "_delta_log"
    log.mkdir(parents=True)
    statistics = '{"numRecords":7,"minValues":{"id":%d},"maxValues":{"id":%d},"nullCount":{"id":0}}'
    adds = [
        AddFile(f"{draw.getrandbits(400):x}.parquet", {}, 1000, 1, stats=statistics % (number, number + 1))
        for number in range(_FILES)
    ]
    (log / commit_name(0)).write_bytes(serialize([Protocol(1, 2), Metadata("id", _SCHEMA, created_time=1), *adds]))
    write_checkpoint(load_snapshot(str(table), LocalStore()))
    assert (log / checkpoint_name(0)).stat().st_size > FEWEST_BYTES


def test_a_second_spark_uses_what_the_first_has_kept(sparks: Sparks, tmp_path: Path) -> None:
    table, cache, other = tmp_path / "t", tmp_path / "cache", tmp_path / "other"
    _write(table)
    settings = {"spark.headwater.cache.directory": str(cache), "spark.headwater.cache.maxBytes": "64m", **_SCRAPED}
    counted: list[dict[str, float]] = []
    for _ in range(2):
        driver = sparks.driver(settings=settings)
        answers = driver.run(
            "all_sql",
            texts=[
                # Settings of the start alone name the directory.
                f"SET spark.headwater.cache.directory = {other}",
                f"SELECT count(*), min(id), max(id) FROM delta.`{table}`",
            ],
        )
        assert answers[1]["rows"] == [[7 * _FILES, 0, _FILES]], json.dumps(answers)
        counted.append(driver.run("scrape"))
        driver.stop()
    first, second = counted
    assert first["columnCacheMisses_Count"] == 3  # the files, the counts of their rows, the bounds of the column
    assert second["columnCacheHits_Count"] >= 4  # and which rows of the checkpoint the files are
    assert second.get("columnCacheMisses_Count", 0) == 0
    assert first["columnCacheBytes_Value"] == sum(entry.stat().st_size for entry in cache.iterdir())
    assert not other.exists()
