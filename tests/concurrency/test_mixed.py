"""Every kind of writer at once in the same tables: bare transactions, a Spark of ours, the peer, delta-rs; and readers.

Runs for ``HEADWATER_TEST_SECONDS`` seconds, of which figures are printed. Two tables, each a bank (:mod:`bank`): one
with deletion vectors and in-commit timestamps, one with neither, in which delta-rs takes part. What must hold: every
version any engine reads has all the money, versions never go back, what a writer was told is in the log once, and the
balances at the end are those that the commits in the log lead to, whoever reads them. The others may lose races, as
we may; nobody may lose a commit.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from support.concurrency.bank_log import check_table
from support.concurrency.bank_run import peer_jars, running
from support.paths import SHARED

SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "5"))
SPARKS = int(os.environ.get("HEADWATER_TEST_SPARKS", "1"))


@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.random
@pytest.mark.slow
@pytest.mark.soak  # the usual run has bare writers and delta-rs in test_writers.py, Sparks of ours in test_upserts.py
@pytest.mark.parametrize("with_peer", [True, False], ids=["with the peer", "without the peer"])
def test_all_kinds_of_writers_at_once(with_peer: bool, tmp_path: Path, capfd: Any) -> None:
    """Without the peer only where there is none, so that one of the two runs."""
    headwater.jar_path()  # built before any process needs it
    peer = peer_jars()
    if with_peer != (peer is not None):
        pytest.skip(f"the list of the peer's JARs is {'not ' if peer is None else ''}in {SHARED}")
    with running(tmp_path, peer, SPARKS) as run:
        before = {path: load_snapshot(path, LocalStore()).version for path in (run.vectors, run.copies)}
        started = time.monotonic()
        while time.monotonic() < started + SECONDS:
            run.check_alive()
            time.sleep(0.2)
        seconds = time.monotonic() - started
        done = {path: load_snapshot(path, LocalStore()).version - version for path, version in before.items()}
        run.end()
        notes = run.notes()
    for path in (run.vectors, run.copies):
        check_table(path, [note for note in notes if note["table"] == path], own_time=path == run.vectors)
    with capfd.disabled():
        print(report(notes, sum(done.values()) / seconds, seconds))
    kinds = {note["kind"] for note in notes if note["what"] == "ack"}
    assert {"append", "copy", "vectors", "optimize", "schema", "delta-rs append", "delta-rs update"} <= kinds
    assert {note["by"] for note in notes if note["what"] == "end"} == {"spark", *(["peer"] if peer else [])}


def report(notes: list[dict[str, Any]], rate: float, seconds: float) -> str:
    """The figures, a line a kind of writer."""
    commits, rebased, passed = Counter[str](), Counter[str](), Counter[str]()
    conflicts: dict[str, Counter[str]] = defaultdict(Counter)
    reads = Counter[str]()
    for note in notes:
        match note["what"]:
            case "ack":
                commits[note["kind"]] += 1
            case "conflict":
                conflicts[note["kind"]][note["condition"]] += 1
            case "rebased":
                rebased[note["kind"]] += 1
                passed[note["kind"]] += note["winners"]
            case "read":
                reads[note["kind"]] += note["versions"]
    total = sum(sum(counts.values()) for counts in conflicts.values())
    lines = [
        f"\nmixed run of {seconds:.0f} s on two tables: {rate:.1f} commits/s; in all {sum(commits.values())} commits, "
        f"{total} conflicts, {sum(rebased.values())} rebased on {sum(passed.values())} winners; versions read "
        + ", ".join(f"{count} by {kind}" for kind, count in sorted(reads.items()))
    ]
    for kind in sorted({*commits, *conflicts}):
        told = ", ".join(f"{count} {name}" for name, count in conflicts[kind].most_common())
        lines.append(f"  {kind}: {commits[kind]} commits, {rebased[kind]} rebased; conflicts: {told or 'none'}")
    return "\n".join(lines)
