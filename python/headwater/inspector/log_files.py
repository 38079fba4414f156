"""The log itself: checkpoints, commits, checksums, writers, and what VACUUM would delete."""

from __future__ import annotations

import logging
from typing import Any

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.inspector.plain import short
from headwater.inspector.table import InspectedTable, View
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.file_names import LAST_CHECKPOINT, SIDECAR_DIRECTORY, CheckpointName, log_directory, parse_name
from headwater.statements.maintenance.health import log_figures, vacuum_figures, whole_log

_MOST_CHECKPOINTS = 50


def log_facts(table: InspectedTable, view: View | None) -> dict[str, Any]:
    """The files of the log; where it is damaged, and there is no view, what a listing has.

    :raises HeadwaterError: ``DELTA_TABLE_NOT_FOUND``.
    """
    listing = table.listing()
    compacted = [range_.file.size for range_ in listing.compactions]
    facts: dict[str, Any] = {
        "latest": listing.latest,
        "earliest": listing.earliest,
        "commits": _amount([file.size for file in listing.commits.values()]),
        "checkpointBytes": sum(file.size for c in listing.checkpoints for file in c.files),
        "compactions": _amount(compacted),
        "checksums": len(listing.checksums),
        "lastCheckpointFile": _has_hint(table),
        "incomplete": [
            {"version": version, "missing": ", ".join(missing)} for version, missing in listing.incomplete.items()
        ],
        "checkpointCount": len(listing.checkpoints),
        "checkpoints": [
            {
                "version": each.version,
                "files": len(each.files),
                "bytes": sum(file.size for file in each.files),
                "format": _format(each.files[0].name, each.format, len(each.files)),
                "time": max(file.modification_time for file in each.files),
            }
            for each in listing.checkpoints[:_MOST_CHECKPOINTS]
        ],
        "sidecars": _sidecars(table),
    }
    if view is not None:
        facts["figures"] = figures(view)
    return facts


def figures(view: View) -> dict[str, Any]:
    """The figures of the log that :mod:`headwater.statements.maintenance.health` has."""
    return view.once("log", _figures)


def _figures(snapshot: Snapshot) -> dict[str, Any]:
    now = clock.milliseconds()
    listing, size = whole_log(snapshot)
    figures = log_figures(snapshot, listing, size, now)
    figures["checkpointInterval"] = snapshot.definition.get(properties.CHECKPOINT_INTERVAL)
    return figures


def vacuum(view: View) -> dict[str, Any]:
    """What VACUUM would delete, as far as the log says.

    :raises HeadwaterError: ``DELTA_MISSING_COMMIT_TIMESTAMP``.
    """

    def make(snapshot: Snapshot) -> dict[str, Any]:
        return vacuum_figures(snapshot, whole_log(snapshot)[0], clock.milliseconds())

    return view.once("vacuum", make)


def writers(view: View) -> dict[str, Any]:
    """The applications that number their commits: streams, and writes that happen once."""
    transactions = view.snapshot.set_transactions.values()
    newest = sorted(transactions, key=lambda each: (each.last_updated or 0, each.app_id), reverse=True)
    return {
        "count": len(newest),
        "applications": [
            {"id": short(each.app_id), "version": each.version, "time": each.last_updated} for each in newest[:200]
        ],
    }


def _format(name: str, kind: str, parts: int) -> str:
    parsed = parse_name(name)
    if isinstance(parsed, CheckpointName) and parsed.uuid is not None:
        return f"V2, {'JSON' if kind == 'json' else 'Parquet'}"
    return f"classic, {parts} parts" if parts > 1 else "classic"


def _has_hint(table: InspectedTable) -> bool:
    try:
        return table.store.exists(f"{log_directory(table.path)}/{LAST_CHECKPOINT}")
    except (OSError, HeadwaterError) as error:
        logging.getLogger(__name__).debug("cannot look for %s: %s", LAST_CHECKPOINT, error)
        return False


def _sidecars(table: InspectedTable) -> dict[str, int]:
    try:
        found = table.store.list_from(f"{log_directory(table.path)}/{SIDECAR_DIRECTORY}")
    except OSError:
        found = []
    return _amount([file.size for file in found])


def _amount(sizes: list[int]) -> dict[str, int]:
    return {"files": len(sizes), "bytes": sum(sizes)}
