"""``headwater maintain`` as a service: a process of its own, which SIGTERM ends between two actions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.commits import add_file, commit, create, live
from support.paths import ROOT
from support.sessions import java_options

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def test_rounds_until_sigterm(tmp_path):
    path = tmp_path / "t"
    create(str(path))
    for number in range(12):
        pq.write_table(pa.table({"id": pa.array(range(10), pa.int64()), "day": ["x"] * 10}), path / f"f{number}")
    commit(path, *(replace(add_file(f"f{n}"), size=(path / f"f{n}").stat().st_size) for n in range(12)))
    command = [sys.executable, "-m", "headwater", "maintain", str(path), "--budget", "5m", "--every", "1s", "--json"]
    home = {"SPARK_SUBMIT_OPTS": java_options(), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT / "python")}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    process = subprocess.Popen(
        [*command, "--master", "local[2]", "--conf", f"spark.sql.warehouse.dir={tmp_path}"],
        cwd=tmp_path,
        env={**kept, **home},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first, second = (json.loads(process.stdout.readline()) for _ in range(2))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    assert [(each["action"], each["outcome"]) for each in first["actions"]] == [("OPTIMIZE", "done")]
    assert (first["actions"][0]["filesBefore"], first["actions"][0]["filesAfter"]) == (12, 1)
    assert (second["round"], second["actions"]) == (2, [])
    assert len(live(path)) == 1
