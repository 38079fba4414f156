"""Transactions over two tables by several Sparks, one of which is killed: the sum over both never changes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import headwater
from support.concurrency.transferring import ACCOUNTS, BALANCE, TOTAL, total
from support.processes import environment, python

_SPARKS = 4
_EACH = max(10, int(os.environ.get("HEADWATER_TEST_EXAMPLES", "0")) // 10)
_PATIENCE_SECONDS = 3000


# The usual run has the model of tests/concurrency/test_model_of_groups.py, which kills a writer at each step.
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_each_read_sees_the_sum(spark: Any, tmp_path: Path) -> None:
    for name in ("left", "right"):
        spark.sql(
            f"CREATE TABLE delta.`{tmp_path}/{name}` USING delta "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') "
            f"AS SELECT CAST(id AS INT) AS id, {BALANCE} AS balance FROM range(0, {ACCOUNTS}, 1, 1)"
        )
    sparks = []
    try:
        for number in range(_SPARKS):
            command = python("support.concurrency.transferring", str(number), str(tmp_path), str(_EACH))
            log = (tmp_path / f"log{number}").open("w")
            started = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(), start_new_session=True
            )
            sparks.append(started)
        for number, process in enumerate(sparks):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", (tmp_path / f"log{number}").read_text()[-4000:]
        (tmp_path / "start").touch()
        killed, *others = sparks
        assert killed.stdout is not None
        for _ in range(_EACH // 2):
            assert killed.stdout.readline() == "made\n"
        os.killpg(killed.pid, signal.SIGKILL)
        told = [process.communicate(timeout=_PATIENCE_SECONDS)[0] for process in others]
    finally:
        for process in sparks:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert told == ["made\n" * _EACH] * len(others)
    assert total(spark, str(tmp_path)) == TOTAL
    counted = spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path}/left`").collect()
    assert len(counted) > len(others) * _EACH
    with headwater.in_transaction(spark):
        spark.sql(f"UPDATE delta.`{tmp_path}/left` SET balance = balance WHERE id = 0")
