"""What maintenance a table needs, by its log alone: which actions, in which order, and what a budget leaves out."""

from __future__ import annotations

import copy

import pytest

from headwater.statements.maintenance.budget import BATCH_SECONDS, USUAL_PACE, Budget, pace_of
from headwater.statements.maintenance.planning import (
    ADVICE,
    DEFERRED,
    MAINTAIN_SCHEMA,
    PLANNED,
    TOO_LONG,
    plan,
    within,
)

GIB = 1 << 30
#: A table of 100 large files with nothing to do.
WELL = {
    "files": {
        "files": 100,
        "bytes": 100 * GIB,
        "filesElsewhere": 0,
        "bytesElsewhere": 0,
        "smallFiles": 0,
        "smallerThan": GIB,
        "partitions": 1,
        "missingFiles": 0,
    },
    "rows": {"rows": 1000, "deletedRows": 0, "filesWithDeletedRows": 0, "filesWithoutStatistics": 0},
    "log": {"commitsSinceLastCheckpoint": 0, "tombstones": 0},
    "optimize": {"filesRemoved": 0, "filesAdded": 0, "bytesRead": 0, "bytesWritten": 0},
    "vacuum": {"filesDeleted": 0, "bytesDeleted": 0, "retentionHours": 168.0},
    "iceberg": {},
    "skipping": {},
}


def with_(**changes):
    sections = copy.deepcopy(WELL)
    for name, values in changes.items():
        sections[name].update(values)
    return sections


SMALL = {"files": {"smallFiles": 60}, "optimize": {"filesRemoved": 60, "filesAdded": 1, "bytesRead": GIB}}
EVERYTHING = {
    **SMALL,
    "rows": {"rows": 900, "deletedRows": 300, "filesWithDeletedRows": 50, "filesWithoutStatistics": 90},
    "log": {"commitsSinceLastCheckpoint": 100},
    "vacuum": {"filesDeleted": 900, "bytesDeleted": 300 * GIB},
}
EVERYTHING["files"] = {"smallFiles": 60, "missingFiles": 1}


def test_nothing_to_do():
    assert plan(WELL, "t") == []


def test_the_worst_comes_first_and_what_only_a_person_can_do_last():
    found = plan(with_(**EVERYTHING), "t")
    assert [each.kind for each in found] == ["CHECKPOINT", "ANALYZE", "OPTIMIZE", "VACUUM", "REORG", None]
    assert [each.outcome for each in found] == [PLANNED] * 5 + [ADVICE]
    assert [round(each.weight, 3) for each in found[:5]] == [1.0, 0.9, 0.59, 0.375, 0.25]
    assert found[2].statement == "OPTIMIZE t"
    assert found[5].statement == "FSCK REPAIR TABLE t DRY RUN"
    rows = [each.row() for each in found]
    assert all(list(row) == MAINTAIN_SCHEMA.names for row in rows)
    assert rows[2]["estimatedSeconds"] == round(BATCH_SECONDS + GIB / USUAL_PACE, 2)
    # A note comes after every warning, whatever its share.
    noted = with_(**{**EVERYTHING, "optimize": {"filesRemoved": 9, "filesAdded": 1, "bytesRead": 1000}})
    assert [each.kind for each in plan(noted, "t")][-2] == "OPTIMIZE"


def test_only_some_actions():
    found = plan(with_(**EVERYTHING), "t", ["VACUUM", "OPTIMIZE"])
    assert [each.kind for each in found] == ["OPTIMIZE", "VACUUM"]


@pytest.mark.parametrize(
    ("would", "outcome"),
    [
        ({"filesRemoved": 4, "filesAdded": 1, "bytesRead": 700 << 20}, PLANNED),
        ({"filesRemoved": 4, "filesAdded": 1, "bytesRead": 3000 << 20}, DEFERRED),
        ({"filesRemoved": 2, "filesAdded": 2, "bytesRead": 300 << 20}, DEFERRED),
        ({"filesRemoved": 60, "filesAdded": 1, "bytesRead": 60 * GIB}, PLANNED),
    ],
)
def test_a_rewrite_that_saves_little_waits(would, outcome):
    (only,) = plan(with_(files={"smallFiles": 4}, optimize=would), "t")
    assert only.outcome == outcome


def test_clustering_does_not_wait():
    """It saves no file, and each scan may skip more."""
    would = {"filesRemoved": 50, "filesAdded": 50, "bytesRead": 50 * GIB}
    sections = with_(optimize=would) | {"clustering": {"columns": ["a"]}}
    (only,) = plan(sections, "t")
    assert (only.outcome, only.weight) == (PLANNED, 0.5)


def test_a_listing_for_little_garbage_waits():
    little, more = ({"filesDeleted": 3, "bytesDeleted": size} for size in (GIB // 2, 2 * GIB))
    assert [each.outcome for each in plan(with_(vacuum=little), "t")] == [DEFERRED]
    assert [each.outcome for each in plan(with_(vacuum=more), "t")] == [PLANNED]


def test_what_would_not_end_in_time_does_not_begin():
    now = [0.0]
    budget = Budget(1.0, lambda: now[0])
    by_kind = {each.kind: within(each, budget) for each in plan(with_(**EVERYTHING), "t", is_local=False)}
    assert by_kind["ANALYZE"].outcome == TOO_LONG
    assert "larger budget" in str(by_kind["ANALYZE"].detail)
    # In batches, a part may fit.
    assert by_kind["OPTIMIZE"].outcome == by_kind["CHECKPOINT"].outcome == PLANNED
    now[0] = 0.9
    assert within(by_kind["CHECKPOINT"], budget).outcome == TOO_LONG
    assert within(by_kind["ANALYZE"], Budget(None)).outcome == TOO_LONG  # it stays what it is
    assert within(plan(with_(**EVERYTHING), "t")[1], Budget(None)).outcome == PLANNED


def test_the_bytes_of_a_batch_follow_what_is_left_and_what_was_measured():
    now = [0.0]
    budget = Budget(100, lambda: now[0])
    assert budget.batch_bytes("/a", 1 << 50) == 25 * USUAL_PACE
    assert budget.batch_bytes("/a", 10) == 10
    assert Budget(None).batch_bytes("/a", 1 << 50) == 1 << 50
    assert Budget(10_000, lambda: 0.0).batch_bytes("/a", 1 << 50) == 60 * USUAL_PACE
    assert budget.allows_rewrite("/a", 90 * USUAL_PACE)
    assert not budget.allows_rewrite("/a", 99 * USUAL_PACE)
    budget.note_rewrite("/a", 10, 60)  # a small one says nothing
    assert pace_of("/a") == USUAL_PACE
    budget.note_rewrite("/a", GIB, 4)
    assert pace_of("/a") == GIB / 4
    assert [budget.part_bytes("/b", GIB, most) for most in (1 << 50, GIB)] == [GIB, GIB]
    assert budget.part_bytes("/b", 1, 1 << 50) == 25 * USUAL_PACE
    assert Budget(None).part_bytes("/b", 1, 1 << 50) == 1 << 50
    now[0] = 99
    assert budget.part_bytes("/b", 1, 1 << 50) == 25 * USUAL_PACE
    assert not budget.allows_rewrite("/a", 1)
    assert budget.left == 1
