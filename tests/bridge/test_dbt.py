"""dbt's adapter for Spark: a project of all that it can do, by the Thrift server and by a session, with four threads.

``pytest -m soak tests/bridge/test_dbt.py`` installs dbt once, in an environment of its own that has this one's packages
behind its own.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headwater.cli import launch
from support import sessions
from support.paths import ROOT, SOURCES

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(3600)]

_PROJECT = Path(__file__).parent / "dbt"
#: dbt 1.12 fetches a program from elsewhere than the package index while it is installed.
_PACKAGES = ("dbt-core>=1.11,<1.12", "dbt-spark[PyHive]>=1.11,<1.12")
_INSTALL_SECONDS = 900
_RUN_SECONDS = 1500
#: Of its batches, one a day.
_DAYS = ("--event-time-start", "2024-01-01", "--event-time-end", "2024-01-03")


@pytest.fixture(scope="module")
def program() -> Path:
    """dbt, installed; skips the test where it cannot be."""
    there = ROOT / "target" / "test-dbt-1.11"
    found = there / "bin" / "dbt"
    if not found.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(there)], check=True)
        install = [str(there / "bin" / "pip"), "install", "--quiet", *_PACKAGES]
        done = subprocess.run(install, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
        if done.returncode:
            shutil.rmtree(there)
            pytest.skip(f"dbt could not be installed: {done.stderr[-500:]}")
        # After its own packages, PySpark and what the handler needs.
        (packages,) = (there / "lib").glob("python*/site-packages")
        (packages / "beside.pth").write_text("\n".join([str(SOURCES), *site.getsitepackages()]), encoding="utf-8")
    return found


Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture(params=["thrift", "session"])
def method(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def dbt(program: Path, method: str, sparks: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """``dbt(command, day)``: what dbt says of each node of the project, which must not fail."""
    port = request.getfixturevalue("thrift_server").port if method == "thrift" else 0
    session = launch.settings({}, launch.jar_path()) | sessions.settings(tmp_path)
    environment = {
        **os.environ,
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "DBT_LOG_PATH": str(tmp_path / "logs"),
        "THRIFT_PORT": str(port),
        "SESSION_SETTINGS": json.dumps({**session, "spark.log.level": "WARN"}),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(launch.spark_home()),
        "PYSPARK_PYTHON": sys.executable,
    }

    def run(*command: str, day: int = 1) -> list[dict[str, Any]]:
        arguments = [*command, "--target", method, "--vars", json.dumps({"day": day})]
        folders = [
            "--project-dir",
            str(_PROJECT),
            "--profiles-dir",
            str(_PROJECT),
            "--target-path",
            str(tmp_path / "target"),
        ]
        done = subprocess.run(
            [str(program), "--no-use-colors", *arguments, *folders],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
        if command[0] == "docs":
            return list(json.loads((tmp_path / "target" / "catalog.json").read_text())["nodes"].values())
        return json.loads((tmp_path / "target" / "run_results.json").read_text())["results"]

    return run


@pytest.fixture
def found(method: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], DeltaTable]:
    """``found(table)``: a table as another engine opens it."""
    home = request.getfixturevalue("thrift_server").home if method == "thrift" else tmp_path
    return lambda table: DeltaTable(str(home / "warehouse" / f"by_{method}.db" / table))


@pytest.fixture
def comments(found: Callable[[str], DeltaTable]) -> Callable[[str], list[str | None]]:
    """``comments(table)``: its own, and that of each column."""

    def read(table: str) -> list[str | None]:
        metadata, columns = found(table).metadata(), found(table).schema().fields
        return [metadata.description, *(column.metadata.get("comment") for column in columns)]

    return read


@pytest.fixture
def rows(found: Callable[[str], DeltaTable]) -> Callable[[str, str], list[tuple[Any, ...]]]:
    """``rows(table, columns)``: what another engine reads in a table."""

    def read(table: str, columns: str) -> list[tuple[Any, ...]]:
        rows = found(table).to_pyarrow_table().to_pylist()
        return sorted((tuple(row[name] for name in columns.split()) for row in rows), key=str)

    return read


def test_all_that_dbt_can_do(
    dbt: Run, rows: Callable[[str, str], list[tuple[Any, ...]]], comments: Callable[[str], list[str | None]]
) -> None:
    first = dbt("build", *_DAYS)
    assert {each["status"] for each in first} == {"success", "pass"}
    assert rows("heavy", "id weight") == [(1, 1.5), (2, 2.25)]
    assert rows("merged", "id weight") == [(1, 1.5), (2, 2.25), (3, 0.75)]
    assert rows("ducks_then", "id dbt_valid_to") == [(1, None), (2, None), (3, None)]
    second = dbt("build", *_DAYS, day=2)
    assert {each["status"] for each in second} == {"success", "pass"}
    new = [(1, 3.0), (12, 1.0), (2, 4.5), (3, 1.5)]
    assert rows("clustered", "id weight") == new
    assert rows("appended", "id day") == [(1, 1), (1, 2), (12, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    assert rows("merged", "id weight told") == [(*row, "day 2") for row in new]
    assert rows("merged_in_part", "id weight day") == [(1, 3.0, 1), (2, 4.5, 1)]
    assert rows("overwritten", "id") == rows("by_batches", "id") == [(1,), (12,), (2,), (3,)]
    assert rows("promised", "id") == [(1,), (12,), (2,), (3,)]
    for snapshot in ("ducks_then", "ducks_since"):
        versions = rows(snapshot, "id weight dbt_valid_to")
        assert [row[:2] for row in versions if row[2] is None] == new
        assert [row[:2] for row in versions if row[2] is not None] == [(1, 1.5), (2, 2.25), (3, 0.75)]
    # Without the tests: one says that `merged`, which is not built again, has no other ducks.
    dbt("build", "--select", "ducks_of_day", "ducks_then", "--exclude-resource-type", "test")
    assert [row[0] for row in rows("ducks_then", "id dbt_valid_to") if row[1] is None] == [1, 2, 3]
    dbt("run", "--full-refresh", "--select", "merged", "heavy")
    assert rows("merged", "id weight") == [(1, 1.5), (2, 2.25), (3, 0.75)]
    # The adapter reads names and types where Spark prints a table's schema, which has no comments.
    described = {node["metadata"]["name"]: node for node in dbt("docs", "generate")}
    heavy = described["heavy"]
    assert {name: column["type"] for name, column in heavy["columns"].items()} == {
        "id": "long",
        "name": "string",
        "weight": "double",
        "hatched": "date",
    }
    assert heavy["stats"]["rows"]["value"] == 2
    assert comments("heavy") == ["Ducks above 1 kg; it's a table", "whose it's", None, "in kg", None]
