"""Whether a table has what its case is about.

An engine may take a property, record it, and do without: its table has the rows, but shows nothing of deletion vectors
or of a kind of checkpoint. So the files of the log are looked into once the table is made, by no engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from conformance.cases import CHECKPOINT, FEATURE, Case
from conformance.steps import Delete, Update, Upsert

Actions = list[tuple[str, dict[str, Any]]]

#: The lowest version of writers that implies a feature, up to 6; from 7 on, the protocol names features.
_LEGACY = {"appendOnly": 2, "invariants": 2, "checkConstraints": 3, "changeDataFeed": 4, "generatedColumns": 4}
_LEGACY |= {"columnMapping": 5, "identityColumns": 6}
_NAMES_FEATURES = 7
_PHYSICAL = "delta.columnMapping.physicalName"
#: Of each kind of checkpoint that the name of a case has, whether the log has it.
_KINDS: dict[str, Callable[[list[str], Actions], bool]] = {
    "classic checkpoint": lambda files, _: any(re.fullmatch(r"\d{20}\.checkpoint\..*parquet", file) for file in files),
    "v2 checkpoint": lambda _, actions: any(kind == "checkpointMetadata" for kind, _ in actions),
    "several parts": lambda files, _: (
        sum(bool(re.search(r"\.checkpoint\.\d{10}\.\d{10}\.", each)) for each in files) > 1
    ),
    "several sidecars": lambda _, actions: len({action["path"] for kind, action in actions if kind == "sidecar"}) > 1,
    ", json": lambda files, _: any(re.search(r"\.checkpoint\..*\.json$", file) for file in files),
    ", parquet": lambda files, _: any(re.search(r"\.checkpoint\.[0-9a-f-]{36}\.parquet$", file) for file in files),
    "statistics as structs": lambda _, actions: any(
        kind == "add" and action.get("stats_parsed") and not action.get("stats") for kind, action in actions
    ),
    "compacted commits": lambda files, _: any(file.endswith(".compacted.json") for file in files),
}


def lacking(case: Case, path: Path) -> str:
    """What a case's table should have, and has not; empty if it has all."""
    log = path / "_delta_log"
    files, actions = [file.name for file in log.iterdir()], list(_actions(log))
    found = []
    if case.group == FEATURE:
        supported = _features(actions)
        found += [f"the feature {name}" for name in case.covers if name not in supported]
    if _marks_rows(case) and not any(action.get("deletionVector") for _, action in actions):
        found.append("deletion vectors")
    if "delta.columnMapping.mode" in case.properties:
        schemas = [action["schemaString"] for kind, action in actions if kind == "metaData"]
        if not any(_PHYSICAL in schema for schema in schemas) or "columnMapping" not in _features(actions):
            found.append("mapped columns")
    if case.group == CHECKPOINT:
        found += [
            name.strip(", ") for name, is_there in _KINDS.items() if name in case.name and not is_there(files, actions)
        ]
    return ", ".join(dict.fromkeys(found))


def _marks_rows(case: Case) -> bool:
    vectors = case.properties.get("delta.enableDeletionVectors") == "true"
    return vectors and any(isinstance(step, (Delete, Update, Upsert)) for step in case.steps)


def _features(actions: Actions) -> set[str]:
    """The features of any protocol that the log still has: those of a table that drops one are more than it has now."""
    found: set[str] = set()
    for kind, action in actions:
        if kind == "protocol":
            version = action["minWriterVersion"]
            found.update(action.get("writerFeatures") or ())
            found.update(name for name, least in _LEGACY.items() if least <= version < _NAMES_FEATURES)
    return found


def _actions(log: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(log.glob("*.json")):
        for line in file.read_text("utf-8").splitlines():
            yield from json.loads(line).items()
    for file in sorted([*log.glob("*.parquet"), *log.glob("_sidecars/*.parquet")]):
        for row in pq.read_table(file).to_pylist():
            yield from ((kind, action) for kind, action in row.items() if action is not None)
