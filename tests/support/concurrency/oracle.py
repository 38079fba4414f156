"""What must come of a race, said a second time and in the simplest words, from the log's lines alone.

Shares no code with :mod:`headwater.transaction`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.stores import Store

KINDS = ("append", "stream", "insert-select", "rewrite", "delete", "compact", "property", "definition")


@dataclass
class Operation:
    """One writer's attempt. ``read`` is the version it began with; ``version`` the one it was told it made."""

    name: str
    kind: str
    day: str
    read: int
    serializable: bool
    version: int | None = None
    condition: str | None = None
    winner: int | None = None

    @property
    def reads_rows(self) -> bool:
        return self.kind in ("insert-select", "rewrite", "delete")

    def reads_day(self, day: str) -> bool:
        return self.kind == "insert-select" or (self.reads_rows and day == self.day)


@dataclass
class Commit:
    """A version: who made it, what it did, and the live files (path to day) after it."""

    name: str
    adds: dict[str, str] = field(default_factory=dict)
    removes: dict[str, str] = field(default_factory=dict)
    changes_data: bool = True
    changes_metadata: bool = False
    #: Whether it changes metadata so that nobody's files mean the same.
    concerns_everybody: bool = False
    blind: bool = False
    apps: set[str] = field(default_factory=set)
    live: dict[str, str] = field(default_factory=dict)


def read_log(disk: Store, path: str) -> list[Commit]:
    """The commits, which must be without gap and whole, and must remove only what is there."""
    files = [file for file in disk.list_from(f"{path}/_delta_log") if file.name.endswith(".json")]
    files = [file for file in files if file.name.count(".") == 1]
    commits: list[Commit] = []
    for version, file in enumerate(files):
        assert file.name == f"{version:020d}.json"
        before = commits[-1].live if commits else {}
        commits.append(_commit([json.loads(line) for line in disk.read(file.path).splitlines()], before))
    return commits


def _commit(actions: list[Mapping[str, Any]], before: Mapping[str, str]) -> Commit:
    (info,) = [action["commitInfo"] for action in actions if "commitInfo" in action]
    commit = Commit(info["userMetadata"], blind=info["isBlindAppend"])
    for action in actions:
        if (add := action.get("add")) is not None:
            commit.adds[add["path"]] = add["partitionValues"]["day"]
            commit.changes_data = add["dataChange"]
        if (remove := action.get("remove")) is not None:
            assert remove["path"] in before, "a file is removed that is not there"
            commit.removes[remove["path"]] = remove["partitionValues"]["day"]
            commit.changes_data = remove["dataChange"]
        if "metaData" in action:
            commit.changes_metadata = True
            commit.concerns_everybody = " definition " in commit.name
        if "txn" in action:
            commit.apps.add(action["txn"]["appId"])
    assert not commit.adds.keys() & before.keys(), "a file is added that is there"
    commit.live = {path: day for path, day in before.items() if path not in commit.removes} | commit.adds
    return commit


def conflict(mine: Operation, winner: Commit, commits: list[Commit]) -> str | None:
    """The condition by which ``mine`` cannot follow the winner, None where it can."""
    began_with = commits[mine.read].live
    if winner.concerns_everybody or winner.changes_metadata and mine.kind in ("property", "definition"):
        return "DELTA_METADATA_CHANGED"
    new_rows = winner.adds if winner.changes_data else {}
    ordered_before = winner.blind and not mine.serializable
    if not ordered_before and any(mine.reads_day(day) for day in new_rows.values()):
        return "DELTA_CONCURRENT_APPEND"
    for path, day in winner.removes.items():
        whole = mine.kind == "insert-select"
        if winner.changes_data and mine.reads_day(day) and (whole or path in began_with):
            return "DELTA_CONCURRENT_DELETE_READ"
    if mine.kind in ("rewrite", "delete", "compact"):
        removed = {path for path, day in began_with.items() if day == mine.day}
        if removed & winner.removes.keys():
            return "DELTA_CONCURRENT_DELETE_DELETE"
    if mine.kind == "stream" and f"app {mine.day}" in winner.apps:
        return "DELTA_CONCURRENT_TRANSACTION"
    return None


def judge(operation: Operation, commits: list[Commit]) -> None:
    """Whether what the writer was told is what had to come of the race."""
    if operation.version is not None:
        last, expected = operation.version, None
        assert commits[last].name == operation.name
    else:
        assert operation.winner is not None
        last, expected = operation.winner, operation.condition
        assert conflict(operation, commits[last], commits) == expected, operation
    for version in range(operation.read + 1, last):
        assert conflict(operation, commits[version], commits) is None, (operation, version)
