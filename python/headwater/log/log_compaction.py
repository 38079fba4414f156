"""Log compaction: joins many commits into one file, for readers far from a checkpoint.

Owns when a compacted file is worth writing, and its content. Follows the protocol's chapter "Log Compaction Files". A
table with a checkpoint every few commits needs none. If ``delta.checkpointInterval`` is long, each :data:`COMMITS`
commits get one, so that a reader opens a few files instead of hundreds. Actions are copied unchanged, including fields
that this version does not know.
"""

from __future__ import annotations

from typing import Any

import orjson

from headwater.log.commits import ParsedActions, parse_actions
from headwater.log.files import FileKey, action_key
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import serialize
from headwater.protocol.file_names import commit_name, compaction_name, log_directory

#: So many commits go into one file; a checkpoint at this distance or nearer does better. With twice as many, a file
#: takes twice as long to write and a table opens no faster (bench case ``log-compaction``).
COMMITS = 50


def compaction_is_due(snapshot: Snapshot, checkpoint_interval: int) -> bool:
    """Whether the version is the last of a run of commits that readers will want in one file."""
    return checkpoint_interval > 2 * COMMITS and snapshot.version % COMMITS == 0 and snapshot.version >= COMMITS


def write_compaction(snapshot: Snapshot) -> str | None:
    """Write the file for the version and the commits before it; its path, None if it is there or would have gaps.

    :raises OSError: the store failed.
    """
    store, directory = snapshot.store, log_directory(snapshot.table_path)
    first, last = snapshot.version - COMMITS + 1, snapshot.version
    paths = [f"{directory}/{commit_name(version)}" for version in range(first, last + 1)]
    try:
        contents = store.read_many(paths)
    except FileNotFoundError:  # cleaned up already
        return None
    commits = [parse_actions(content, path) for content, path in zip(contents, paths, strict=True)]
    target = f"{directory}/{compaction_name(first, last)}"
    try:
        store.put_if_absent(target, compacted(commits))
    except FileExistsError:
        return None
    return target


def compacted(commits: list[ParsedActions]) -> bytes:
    """The reconciled actions of commits given in ascending order, as lines."""
    newest: dict[FileKey, dict[str, Any]] = {}
    state: dict[str, Any] = {}
    for commit in commits:
        for is_add, action in commit.files:
            key = action_key(action)
            newest.pop(key, None)
            newest[key] = {"add" if is_add else "remove": action}
        if commit.protocol is not None:
            state["protocol"] = commit.protocol
        if commit.metadata is not None:
            state["metadata"] = commit.metadata
        state |= {f"app {name}": action for name, action in commit.transactions.items()}
        state |= {f"domain {name}": action for name, action in commit.domains.items()}
    return serialize(state.values()) + b"".join(orjson.dumps(action) + b"\n" for action in newest.values())
