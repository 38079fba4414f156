"""VACUUM by three engines in turn, between writes of theirs: what versions within the retention need stays, what our
runs are to delete goes, and LITE goes on after each engine's run.

Which files each version needs is read from the log. The retention is a few seconds, and is waited for. delta-rs takes
part where the table has neither deletion vectors nor change data. ``HEADWATER_TEST_EXAMPLES`` asks for other runs.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headwater.log.snapshot import load_snapshot
from headwater.log.vacuum import needed_files
from headwater.stores import LocalStore

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.random]
GIVEN = os.environ.get("HEADWATER_TEST_EXAMPLES")
SECONDS_EACH = 40
FIRST_SEED = int(os.environ.get("HEADWATER_TEST_SEED", "0"))
SEEDS = range(FIRST_SEED, FIRST_SEED + 1 + int(GIVEN or 0) // SECONDS_EACH // 2)
RETENTION_MS = 6_000
#: An engine may count whole seconds.
SKEW_MS = 1_000
STEPS = 4 if GIVEN is None else 14
NEVER = 2**62


class History:
    """What each version of a table needs, when files stopped being needed, and the rows of each version."""

    def __init__(self, path: Path, read: Callable[[str], list[Any]]) -> None:
        self.path, self._read = path, read
        self.needs: list[set[str]] = []
        self.removed_at: list[int] = []
        self.committed_at: list[int] = []
        self.rows: list[list[Any]] = []

    def follow(self) -> None:
        """Take what was committed since."""
        newest = load_snapshot(str(self.path), LocalStore()).version
        for version in range(len(self.needs), newest + 1):
            snapshot = load_snapshot(str(self.path), LocalStore(), version)
            self.needs.append(set(needed_files(snapshot, NEVER).paths.to_pylist()))
            commit = self.path / f"_delta_log/{version:020d}.json"
            self.committed_at.append(commit.stat().st_mtime_ns // 1_000_000)
            lines = commit.read_text().split("\n")
            removes = [action["remove"] for line in lines if line and "remove" in (action := json.loads(line))]
            self.removed_at.append(min((remove["deletionTimestamp"] for remove in removes), default=NEVER))
            self.rows.append(self._read(f"VERSION AS OF {version}"))

    def readable(self, since: int) -> list[int]:
        """The versions of which nothing was removed before a time."""
        return [v for v in range(len(self.needs)) if all(at >= since for at in self.removed_at[v + 1 :])]

    def kept(self, since: int) -> set[str]:
        """The files that stay in a VACUUM that keeps what was removed since."""
        return set().union(*(self.needs[version] for version in self.readable(since)))

    def gone(self, before: int) -> set[str]:
        """The files that commits before a time removed, and that no version needs since then. A commit is later than
        the times that it gives its removals.
        """
        first = max((v for v, at in enumerate(self.committed_at) if at < before), default=0)
        return set().union(*self.needs[:first]) - set().union(*self.needs[first:])

    def files(self) -> set[str]:
        found = (file.relative_to(self.path) for file in self.path.rglob("*.*"))
        return {str(file) for file in found if file.name[0] != "." and file.parts[0] != "_delta_log"}


def now() -> int:
    return time.time_ns() // 1_000_000


def vacuum_by_delta_rs(path: Path, mode: str) -> None:
    table = DeltaTable(str(path))
    table.vacuum(dry_run=mode == "DRY RUN", enforce_retention_duration=False, full=mode != "LITE")


def draw_write(drawn: random.Random, number: int) -> str:
    """A statement of both Sparks."""
    low = drawn.randrange(40)
    return drawn.choice(
        [
            f"INSERT INTO {{t}} SELECT CAST(id AS INT), {number} FROM range({low}, {low + 8}, 1, 2)",
            f"DELETE FROM {{t}} WHERE id BETWEEN {low} AND {low + 5}",
            f"UPDATE {{t}} SET n = {number} WHERE id BETWEEN {low} AND {low + 5}",
            "OPTIMIZE {t}",
        ]
    )


@pytest.mark.parametrize(
    "vectors", [pytest.param(True, marks=pytest.mark.soak), False], ids=["vectors and change data", "three engines"]
)
@pytest.mark.parametrize("seed", SEEDS)
def test_in_turn(spark: Any, peer: Any, tmp_path: Path, seed: int, vectors: bool, settings: Any) -> None:
    drawn, path = random.Random(seed), tmp_path / "t"
    t, flag = f"delta.`{path}`", str(vectors).lower()

    def ours(text: str) -> list[Any]:
        return [tuple(row) for row in spark.sql(text).collect()]

    enforce = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
    with settings({enforce: "false"}):
        ours(
            f"CREATE TABLE {t} (id INT, n INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = '{flag}', "
            f"'delta.enableChangeDataFeed' = '{flag}', 'delta.checkpointInterval' = '5', "
            f"'delta.deletedFileRetentionDuration' = 'interval {RETENTION_MS // 1000} seconds')"
        )
        history = History(path, lambda of: sorted(ours(f"SELECT id, n FROM {t} {of}")))
        sparks = {"ours": ours, "peer": peer.sql}
        engines = [*sparks] if vectors else [*sparks, "delta-rs"]
        order = drawn.sample(engines, len(engines))
        for step in range(STEPS):
            for _ in range(drawn.randint(1, 3)):
                engine = drawn.choice(engines)
                if engine == "delta-rs":
                    write_deltalake(str(path), pa.table({"id": pa.array([step], pa.int32())}).append_column(
                        "n", pa.array([step], pa.int32())), mode="append")  # fmt: skip
                else:
                    sparks[engine](draw_write(drawn, step).format(t=t))
            history.follow()
            if drawn.random() < 0.5:
                time.sleep(RETENTION_MS / 3000)
            # Each engine follows on each other.
            engine = order[step % len(order)] if step < len(order) + 1 else drawn.choice(engines)
            mode = drawn.choice(["", "LITE", "FULL", "DRY RUN"])
            before, there = now(), history.files()
            if engine == "delta-rs":
                vacuum_by_delta_rs(path, mode)
            else:
                sparks[engine](f"VACUUM {t} {mode}")
            told, left = (step, engine, mode), history.files()
            since = now() - RETENTION_MS + SKEW_MS
            assert history.kept(since) <= left, told
            if mode == "DRY RUN":
                assert left == there, told
            elif engine == "ours":
                assert not history.gone(before - RETENTION_MS - SKEW_MS) & left, told
            history.follow()
            for version in history.readable(since):
                assert sorted(ours(f"SELECT id, n FROM {t} VERSION AS OF {version}")) == history.rows[version], told
        assert sorted(map(tuple, peer.sql(f"SELECT id, n FROM {t}"))) == history.rows[-1]
