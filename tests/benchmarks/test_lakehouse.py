"""The bench of whole workloads, without a JVM: its queries are Spark's SQL, answers that differ are found, and the page
has what the record has.
"""

from __future__ import annotations

import importlib
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from support.fetched_packages import fetched_packages
from support.paths import ROOT

_DUCKDB = "1.1.3"


@pytest.fixture
def lakehouse(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"bench.lakehouse.{name}")


@pytest.mark.parametrize(("family", "tables", "queries"), [("tpcds", 24, 99), ("tpch", 8, 22)])
def test_every_query_is_spark_s_sql(lakehouse, monkeypatch, tmp_path, family: str, tables: int, queries: int):
    packages = fetched_packages(f"test-duckdb-{_DUCKDB}", f"duckdb=={_DUCKDB}")
    monkeypatch.setenv("PYTHONPATH", str(packages))
    data = lakehouse("data")
    found = data.generated(family, 0, tmp_path)
    assert len(found.tables()) == tables
    assert len(found.queries) == queries
    for text in found.queries.values():
        tree = sqlglot.parse_one(text, read="spark")
        assert isinstance(tree, exp.Query)
        assert {each.name for each in tree.find_all(exp.Table)} & set(found.tables())
        assert sqlglot.parse_one(data.without_limit(text), read="spark").args.get("limit") is None


def test_without_duckdb_the_extra_is_named(lakehouse, monkeypatch, tmp_path):
    (tmp_path / "duckdb.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    data = lakehouse("data")
    with pytest.raises(data.NoGenerator, match=r"'\.\[bench\]'"):
        data.generated("tpch", 0, tmp_path)


def test_batches_of_a_refresh_have_no_row_in_common(lakehouse):
    data = lakehouse("data")
    shares = [set(data._buckets(part, number)) for number in range(data.BATCHES) for part in range(3)]
    every = set().union(*shares)
    assert len(every) == sum(map(len, shares))
    assert every <= set(range(data._ONE_IN * data.BATCHES))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([["a", "1"]], [["a", "2"]]),
        ([["a", None]], [["a", "None"]]),
        ([["a"]], [["a"], ["a"]]),
        ([["a"], ["a"], ["b"]], [["a"], ["b"], ["b"]]),
        ([["a", 1.0]], [["a", 1.0001]]),
        ([["a", 1.0]], [["a", None]]),
        ([["a", 1.0]], [["a", float("nan")]]),
        ([["a"]], [["a", "b"]]),
    ],
)
def test_answers_that_differ_are_found(lakehouse, one, other):
    assert lakehouse("running").difference(one, other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([["a"], ["b"]], [["b"], ["a"]]),
        ([["a", 0.1 + 0.2], ["b", 0.3]], [["b", 0.3], ["a", 0.3]]),
        ([["a", float("nan")]], [["a", float("nan")]]),
        ([[None], ["a"]], [["a"], [None]]),
        ([], []),
    ],
)
def test_answers_that_are_the_same_are_no_difference(lakehouse, one, other):
    assert lakehouse("running").difference(one, other) is None


class _Side:
    """A side whose statements take as long as it says, and that fails one of them."""

    def __init__(self, name: str, seconds: float, failing: str, failure: Exception) -> None:
        self.name, self.spark, self.comet = name, self, name == "ours"
        self._seconds, self._failing, self._failure = seconds, failing, failure

    def run(self, sql: str) -> float:
        if sql == self._failing:
            raise self._failure
        return self._seconds

    def call(self, name: str, sql: str) -> dict[str, Any]:
        self.run(sql)
        if name == "native_scans":
            return {"native": 2, "all": 3}
        return {"rows": [[self.name if sql == "differing" else "a row"]]}


def _run(lakehouse: Any, failing: str) -> Any:
    running = lakehouse("running")
    failure = importlib.import_module("bench.sparks").SparkFailed(f"{failing}: no such function\nat a line")
    sides = [_Side("ours", 1.0, "", failure), _Side("peer", 2.0, failing, failure)]
    run = running.Run(Path(), sides, 1, 1, running.Progress(disable=True))
    for sql in ("good", "differing", "failing"):
        run.query("queries", sql, sql)
    return run.found


def test_what_a_side_cannot_run_is_kept_and_so_is_a_difference(lakehouse):
    found = _run(lakehouse, "failing")
    assert found.groups["queries"] == {
        "good": {"ours": 1.0, "peer": 2.0},
        "differing": {"ours": 1.0, "peer": 2.0},
        "failing": {"ours": 1.0},
    }
    assert found.cannot == {"failing": {"peer": "failing: no such function"}}
    assert found.differs == {"differing": "ours and peer: ['ours'] and ['peer']"}
    assert found.native == {"ours": [6, 9]}


@pytest.fixture
def record(tmp_path: Path) -> Path:
    times = {"q1": {"ours": 1.0, "peer": 4.0, "parquet": 0.5}, "q2": {"ours": 3.0, "peer": 3.0}}
    machine = {"when": "2026-01-01", "processors": 2, "gigabytes": 8, "load": 0.1, "scale": 0.1, "rounds": 3}
    sides = {"ours": "Headwater 1", "peer": "Delta Lake 2", "parquet": "Parquet"}
    cannot, differs = {"q2": {"parquet": "no such function"}}, {"q1": "ours and peer: 1 rows and 2"}
    found = {**machine, "spark": "4.2.1", "sides": sides, "groups": {"queries": times}}
    found |= {"cannot": cannot, "differs": differs}
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"tpch": found}))
    return path


def test_the_tables_of_the_page_come_from_the_record(lakehouse, record: Path):
    text = lakehouse("page").tables("tpch", record)
    plain = re.sub(r"<span[^>]*></span> ", "", text)
    assert "| query | Headwater 1 | Delta Lake 2 | ratio | Parquet | ratio |" in plain
    assert "| q1 | 1.00 s | 4.00 s | 0.25 | 0.50 s | 2.00 |" in plain
    assert "| q2 | 3.00 s | 3.00 s | 1.00 | cannot |  |" in plain
    assert "| total time | 4.00 s | 7.00 s | 0.57 | 0.50 s | 2.00 |" in plain
    assert "| **geometric mean** |  |  | 0.50 |  | 2.00 |" in plain
    assert "| not slower |  |  | 2 of 2 |  | 0 of 1 |" in plain
    assert '<span class="hw-ratio" style="--hw-ratio: 0.25"></span> 0.25' in text
    assert "Behind Parquet by more than a tenth: q1 (2.00)." in text
    assert "Behind Delta Lake 2 by more than a tenth: nothing." in text
    assert "Parquet cannot run q2: `no such function`" in text
    assert "The answers of q1 differ, ours and peer: 1 rows and 2" in text


def test_the_page_says_how_many_scans_an_accelerator_did(lakehouse, record: Path, tmp_path: Path):
    found = json.loads(record.read_text())["tpch"]
    record.write_text(json.dumps({"tpch": {**found, "comet": "1.2.0", "native": {"ours": [7, 8]}}}))
    text = lakehouse("page").tables("tpch", record)
    assert "Spark 4.2.1 with Comet 1.2.0; scale" in text
    assert "Headwater 1: Comet did 7 of 8 scans of files." in text
    assert lakehouse("page").tables("tpch", tmp_path / "none.json") == "No run of it is recorded yet."


def test_all_sides_but_one_have_the_accelerator(lakehouse, monkeypatch, tmp_path: Path):
    sparks, sides = importlib.import_module("bench.sparks"), lakehouse("sides")
    monkeypatch.setenv("HEADWATER_COMET_JAR", "/jars/comet-spark-spark4.1_2.13-1.2.0.jar")
    monkeypatch.setenv("HEADWATER_PEER_JARS", "/jars/delta.jar,/jars/storage.jar")
    monkeypatch.delenv("HEADWATER_ICEBERG_JARS", raising=False)
    assert sides.usual(comet=True) == [*sides.usual(), sides.UNACCELERATED]
    assert sides.comet_version() == "1.2.0"
    found = sparks.settings(sparks.PEER, tmp_path, "1g", comet=True)
    assert found["spark.jars"] == "/jars/delta.jar,/jars/storage.jar,/jars/comet-spark-spark4.1_2.13-1.2.0.jar"
    assert found["spark.plugins"] == "org.apache.spark.CometPlugin"
    assert "spark.plugins" not in sparks.settings(sparks.PEER, tmp_path, "1g")
    monkeypatch.delenv("HEADWATER_COMET_JAR")
    with pytest.raises(sparks.SparkFailed, match="HEADWATER_COMET_JAR"):
        sparks.settings(sparks.OURS, tmp_path, "1g", comet=True)


def test_the_results_in_short_come_from_the_record(lakehouse, record: Path):
    """Sums are of the statements that every side ran."""
    text = re.sub(r"<span[^>]*></span> ", "", lakehouse("page").results(record))
    assert "| statements | Headwater 1 | Delta Lake 2 | mean ratio | Parquet | mean ratio |" in text
    assert "| [TPC-H](#tpc-h): 2 queries | 1.0 s | 4.0 s | 0.50 | 0.5 s | 2.00 |" in text
    assert text.endswith("Scale 0.1, 3 rounds on 2026-01-01, Spark 4.2.1, 2 processors and 8 GB.")


def test_the_front_page_has_a_bar_for_each_side_that_ran_all_of_a_group(lakehouse, record: Path):
    text = lakehouse("page").race(record)
    lanes = re.findall(r'hw-(\w+)"><span>(.*?)</span><i style="--hw-share: (.*?)"></i><b>(.*?)</b>', text)
    assert lanes == [("ours", "Headwater 1", "0.571", "4.0 s"), ("peer", "Delta Lake 2", "1.000", "7.0 s")]
    assert "[TPC-H, 2 queries](benchmarks.md#tpc-h)" in text
    assert "on 2026-01-01" in text


def test_the_page_has_every_workload_and_no_figures_of_its_own(lakehouse):
    site = runpy.run_path(str(ROOT / ".ci" / "site.py"))
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    filled = site["filled"](page, "benchmarks.md")
    assert "<!-- bench" not in filled
    recorded = json.loads((ROOT / "bench" / "lakehouse.json").read_text("utf-8"))
    marks = re.findall(r"<!-- bench: lakehouse (\w+) -->", page)
    assert marks == list(lakehouse("workloads").WORKLOADS)
    assert set(recorded) <= set(marks)
    for name, found in recorded.items():
        assert lakehouse("page").tables(name) in filled
        assert found["differs"] == {}
