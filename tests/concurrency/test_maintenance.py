"""Maintenance by several engines at once, among transfers and entries: OPTIMIZE, ZORDER, REORG, VACUUM, RESTORE,
auto-compaction.

Two Sparks of ours and the peer write to two banks (:mod:`support.concurrency.bank`) and maintain them, for
``HEADWATER_TEST_SECONDS`` seconds. What must hold: every version has all the money; what a writer was told is in the
log once; at the end the tables are what the commits lead to, with what RESTORE brought back; each account still has the
row id it had at first; no statement of ours fails.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from support.concurrency.bank import ACCOUNTS
from support.concurrency.bank_log import check_table
from support.concurrency.bank_run import peer_jars, running

SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "60"))
SPARKS = int(os.environ.get("HEADWATER_TEST_SPARKS", "2"))


@pytest.mark.spark
@pytest.mark.soak
def test_maintenance_beside_writers(tmp_path: Path, capfd: Any) -> None:
    headwater.jar_path()  # built before any process needs it
    properties = {
        "delta_deletedFileRetentionDuration": "interval 180 seconds",
        "delta_autoOptimize_autoCompact": "true",
    }
    with running(tmp_path, peer_jars(), SPARKS, bare=(), delta_rs=False, maintains=True, **properties) as run:
        before = {path: load_snapshot(path, LocalStore()).version for path in (run.vectors, run.copies)}
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            run.check_alive()
            time.sleep(0.2)
        done = {path: load_snapshot(path, LocalStore()).version - version for path, version in before.items()}
        run.end()
        notes = run.notes()
    ended = Counter((note["kind"], note["what"]) for note in notes if note["what"] in ("ack", "done", "conflict"))
    with capfd.disabled():
        print(f"\n{done}: {sorted(ended.items())}")
    for path in (run.vectors, run.copies):
        check_table(path, [note for note in notes if note["table"] == path], own_time=path == run.vectors)
    failed = [note for note in notes if note["what"] == "conflict" and note["kind"].startswith("spark ")]
    assert not failed, failed
    for note in notes:
        if note["what"] == "end":
            ids = note["ids"]
            assert len(set(ids)) == len(ids), f"{note['by']} reads row ids twice: {ids}"
            # Entries have no account and come first; the accounts are the table's first rows.
            assert sorted(ids[-ACCOUNTS:]) == list(range(ACCOUNTS)), f"{note['by']} reads {ids}"
