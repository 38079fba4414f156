"""What must hold of a bank's table and of what its writers were told, read off the log's lines.

Shares no code with what is tested but the names of files: live files, provenance and balances are worked out once more
in the simplest way, and compared with what a snapshot shows.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.log.snapshot import load_snapshot
from headwater.protocol.file_names import CommitName, parse_name
from headwater.stores import LocalStore
from support.concurrency import bank

#: The kinds of commits that append entries; ``append`` is ours, under an application's next version.
APPENDS = {"append", "spark insert", "peer insert", "delta-rs append"}

#: Marks the commits of auto-compaction, which have the marker of the session that made it due.
_AUTO = "auto-"


def check_table(path: str, notes: Iterable[dict[str, Any]], own_time: bool) -> list[str]:
    """What was told is in the log once, and every reader sees at the end what the log says; the commits' markers.

    :param own_time: whether the table has in-commit timestamps, which must grow.
    """
    notes = list(notes)
    commits = read_log(path)
    markers = [commit["marker"] for commit in commits]
    assert None not in markers, "a commit nobody made"
    versions = {marker: version for version, marker in enumerate(markers)}
    assert len(versions) == len(markers), "a commit is there twice"
    identifiers = [commit["info"]["txnId"] for commit in commits if "txnId" in commit["info"]]
    assert len(set(identifiers)) == len(identifiers)
    tried = {note["marker"]: note for note in notes if note["what"] == "try"}
    assert {marker for marker in versions if not marker.startswith(_AUTO)} <= {"create", *tried}
    for note in notes:
        if note["what"] == "ack":
            assert note["marker"] in versions, f"a commit is lost: {note}"
            assert note.get("version") in (None, versions[note["marker"]])
        elif note["what"] == "conflict" and not note["kind"].startswith(("peer", "delta-rs")):
            assert note["marker"] not in versions, f"told of a conflict, and committed: {note}"
            assert note["condition"] in bank.CONFLICTS, note
    states = history_of(commits, tried)
    expected, appended = states[-1].balances, states[-1].entries
    newest = load_snapshot(path, LocalStore())
    assert newest.version == len(commits) - 1
    assert live(newest.select(["path", "deletion_vector"])) == commits[-1]["live"]
    assert bank.balances(newest) == expected
    assert bank.entries(newest) == dict.fromkeys(appended, 1)
    for note in notes:
        if note["what"] == "end":
            assert dict(note["balances"]) == expected, note["by"]
            assert note["entries"] == sorted(appended), note["by"]
    newest_of: dict[str, int] = defaultdict(int)
    # What RESTORE took back was written all the same.
    ever = frozenset().union(*(state.entries for state in states))
    for name, _, number in (marker.rpartition("-") for marker in ever if tried[marker]["kind"] == "append"):
        newest_of[name] = max(newest_of[name], int(number))
    assert {name: txn.version for name, txn in newest.set_transactions.items()} == newest_of
    if own_time:
        times = [commit["info"]["inCommitTimestamp"] for commit in commits]
        assert times == sorted(set(times))
    return markers


class State(NamedTuple):
    """A version of the table: balances by account, and the markers of the entries."""

    balances: dict[int, int]
    entries: frozenset[str]


def history_of(commits: Sequence[Mapping[str, Any]], tried: Mapping[str, Mapping[str, Any]]) -> list[State]:
    """Each version, as its commits lead to it: transfers, entries, and what RESTORE brings back."""
    states = [State(bank.after_all([]), frozenset())]
    for commit in commits[1:]:
        info, before = commit["info"], states[-1]
        if commit["marker"].startswith(_AUTO):
            states.append(before)
            continue
        note = tried[commit["marker"]]
        if info["operation"] == "RESTORE":
            states.append(states[int(info["operationParameters"]["version"])])
        elif note["transfer"]:
            states.append(before._replace(balances=bank.after_all([note["transfer"]], before.balances)))
        elif note["kind"] in APPENDS:
            states.append(before._replace(entries=before.entries | {note["marker"]}))
        else:
            states.append(before)
    return states


def read_log(path: str) -> list[dict[str, Any]]:
    """Each version's provenance and marker, and the files it leaves live; read without any of the code that is
    tested.
    """
    log, commits = Path(path) / "_delta_log", []
    names = sorted(file.name for file in log.iterdir() if isinstance(parse_name(file.name), CommitName))
    files: dict[str, str | None] = {}
    for version, name in enumerate(names):
        assert name == f"{version:020d}.json"
        actions = [json.loads(line) for line in (log / name).read_text().splitlines()]
        for action in actions:  # what is removed may be added again with another vector, in any order of lines
            if (remove := action.get("remove")) is not None:
                assert files.pop(remove["path"]) == vector_id(remove.get("deletionVector")), (version, remove)
        for action in actions:
            if (add := action.get("add")) is not None:
                assert add["path"] not in files, (version, add)
                files[add["path"]] = vector_id(add.get("deletionVector"))
        (info,) = [action["commitInfo"] for action in actions if "commitInfo" in action]
        automatic = str(info.get("operationParameters", {}).get("auto")) == "true"
        marker = f"{_AUTO}{version}" if automatic else info.get("userMetadata")
        commits.append({"info": info, "marker": marker, "live": dict(files)})
    return commits


def vector_id(vector: Mapping[str, Any] | None) -> str | None:
    return None if not vector else f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}"


def live(files: pa.Table) -> dict[str, str | None]:
    found = {}
    for row in files.to_pylist():
        vector = row["deletion_vector"]
        spelled = vector and {
            "storageType": vector["storage_type"],
            "pathOrInlineDv": vector["path_or_inline"],
            "offset": vector["offset"],
        }
        found[row["path"]] = vector_id(spelled)
    return found
