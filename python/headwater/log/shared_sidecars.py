"""Sidecars that a V2 checkpoint shares with the previous one.

Owns which they are. Follows the protocol's chapters "Sidecar Files" and "Metadata Cleanup": a sidecar may belong to
several checkpoints, and a cleanup deletes those that no checkpoint names. Promise: what is shared holds the actions
that the new checkpoint would write, and nobody deletes it before the new checkpoint is there. So a sidecar is shared
only if

1. it has ``add`` actions alone, all of them of live files, in the columns that the table's checkpoints have now;
2. the newest checkpoint names it: a cleanup keeps that one until a newer one has outlived
   ``delta.logRetentionDuration``, which is a day at least;
3. it is there;
4. the snapshot was read from it. Files that this process has added since it opened the table are written each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headwater.log.checkpoint_reading import (
    CheckpointStatistics,
    ParquetActions,
    UnreadableCheckpoint,
    named_sidecars,
)
from headwater.log.replay import LiveBlock
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.file_names import SIDECAR_DIRECTORY, log_directory

#: The least retention of the log, in milliseconds, under which a checkpoint is written in time to keep what it shares.
_RETENTION = 24 * 60 * 60 * 1000


def shared_sidecars(snapshot: Snapshot, types: Mapping[str, pa.DataType], fewest: int) -> dict[int, Mapping[str, Any]]:
    """The ``sidecar`` actions that the checkpoint of a snapshot takes from the one before it, each by the number of the
    block of :attr:`~headwater.log.replay.TableState.blocks` that it holds.

    :param types: the columns ``add`` and ``remove`` of the new checkpoint.
    :param fewest: smaller ones are not shared, so that they do not become many.
    :raises OSError: the store failed.
    """
    if snapshot.definition.get(properties.LOG_RETENTION) < _RETENTION or snapshot.segment.checkpoint is None:
        return {}
    directory = f"{log_directory(snapshot.table_path)}/{SIDECAR_DIRECTORY}/"
    blocks = {}
    for number, live in enumerate(snapshot.state.blocks):
        file = _whole(live, fewest)
        if file is not None and file.path.startswith(directory) and _has_columns(file, types):
            blocks[file.path.removeprefix(directory)] = number
    if not blocks:
        return {}
    listing = list_log(snapshot.table_path, snapshot.store, snapshot.segment.checkpoint.version)
    if not listing.checkpoints:
        return {}
    try:
        named = named_sidecars(listing.checkpoints[0], snapshot.store)
    except UnreadableCheckpoint:
        return {}
    found = ((name, _action(name, named.get(name, {}))) for name in blocks)
    actions = {name: action for name, action in found if action is not None}
    missing = set(snapshot.store.missing([directory + name for name in actions]))
    return {blocks[name]: action for name, action in actions.items() if directory + name not in missing}


def _action(name: str, known: Mapping[str, Any]) -> dict[str, Any] | None:
    """The action that names a sidecar as another checkpoint does; None if that one does not name it properly."""
    size, time = known.get("sizeInBytes"), known.get("modificationTime")
    return None if size is None or time is None else {"path": name, "sizeInBytes": size, "modificationTime": time}


def _whole(live: LiveBlock, fewest: int) -> ParquetActions | None:
    """The file with just the block's files, if all of these, and enough of them, are live."""
    if len(live.dead) or live.num_files < fewest or not isinstance(live.block.statistics, CheckpointStatistics):
        return None
    return live.block.statistics.whole_file


def _has_columns(file: ParquetActions, types: Mapping[str, pa.DataType]) -> bool:
    with file.in_use():
        return all(file.field_type(kind) == wanted for kind, wanted in types.items())
