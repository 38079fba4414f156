"""The files of a version: their sizes, what OPTIMIZE would do with them, their partitions and their deleted rows.

Owns these figures, from the log alone; the choice is OPTIMIZE's own.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.inspector.plain import short, text_of
from headwater.log.files import FILE_SCHEMA
from headwater.log.snapshot import Snapshot
from headwater.protocol.partition_values import texts_of
from headwater.statements.maintenance.layouts import Settings, own_layout

#: The sizes between which the bars of the histogram lie, in bytes: powers of two, the first and last open.
EDGES = [1 << power for power in range(10, 34)]
#: Partitions that are shown one by one.
_MOST_PARTITIONS = 500
_MOST_FILES = 20


def sizes(snapshot: Snapshot) -> dict[str, Any]:
    """The histogram of the files' sizes."""
    size = _numbers(snapshot.select(["size"])["size"])
    small = Settings.of_table(snapshot.definition).min_file_size
    return {
        "edges": EDGES,
        "bars": _bars(size),
        "smallerThan": small,
        "smallFiles": int((size < small).sum()),
        "median": int(np.median(size)) if len(size) else None,
        "largest": int(size.max()) if len(size) else None,
        "smallest": int(size.min()) if len(size) else None,
    }


def optimize(snapshot: Snapshot) -> dict[str, Any]:
    """What OPTIMIZE would do, and the histogram that it would leave.

    :raises HeadwaterError: ``HEADWATER_CLUSTERING_UNREADABLE``.
    """
    settings = Settings.of_table(snapshot.definition)
    layout = own_layout(snapshot, settings)
    choice = layout.choose(_without_statistics(snapshot), pa.array(np.ones(snapshot.num_files, bool)))
    size = _numbers(snapshot.select(["size"])["size"])
    taken = _numbers(choice.files["size"])[[p for each in choice.bins for p in each.positions]]
    outputs: list[int] = []
    for each in choice.bins:
        count, live = layout.num_outputs(each.size), min(max(choice.live_bytes(each), 0), each.size)
        outputs += [live // count] * count
    new = np.array(outputs, np.int64)
    after = [
        [old[0] - gone[0] + made[0], old[1] - gone[1] + made[1]]
        for old, gone, made in zip(_bars(size), _bars(taken), _bars(new), strict=True)
    ]
    reasons: dict[str, int] = {}
    for each in choice.bins:
        for position in each.positions:
            reason = choice.reasons[position]
            kind = "too small" if reason.startswith("it has ") else "deleted rows" if "deleted" in reason else reason
            reasons[kind] = reasons.get(kind, 0) + 1
    return {
        "layout": layout.verb,
        "filesRemoved": len(taken),
        "bytesRead": int(taken.sum()),
        "filesAdded": len(new),
        "bytesWritten": int(new.sum()),
        "rewritten": _bars(taken),
        "after": after,
        "reasons": reasons,
    }


def _without_statistics(snapshot: Snapshot) -> Snapshot:
    """The snapshot with files that have no text of statistics, which is most of what they take in memory."""
    light = copy.copy(snapshot)
    names = [name for name in FILE_SCHEMA.names if name != "stats"]
    object.__setattr__(light, "files", snapshot.select(names))
    return light


def vectors(snapshot: Snapshot) -> dict[str, Any]:
    """Deletion vectors: how many rows of how many files they mark."""
    files = snapshot.select(["path", "size", "deletion_vector"])
    vector = files["deletion_vector"]
    if vector.null_count == len(vector):
        return {"files": files.num_rows, "filesWithVectors": 0}
    records = snapshot.statistics([])["num_records"]
    has = pc.is_valid(vector)
    marked, rows = files.filter(has), _numbers(records.filter(has), -1)
    deleted = _numbers(pc.struct_field(marked["deletion_vector"], "cardinality"))
    total = None if records.null_count else pc.sum(records).as_py() or 0
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(rows > 0, np.minimum(deleted / rows, 1.0), np.nan)
    known = share[~np.isnan(share)]
    worst = np.argsort(-np.nan_to_num(share, nan=1.0), kind="stable")[:_MOST_FILES]
    stored = pc.struct_field(marked["deletion_vector"], "storage_type").value_counts().to_pylist()
    names = {"u": "in files beside the data", "p": "in files elsewhere", "i": "in the log"}
    return {
        "files": files.num_rows,
        "filesWithVectors": marked.num_rows,
        "deletedRows": int(deleted.sum()),
        "rows": total,
        "bars": np.histogram(known, bins=10, range=(0, 1))[0].tolist(),
        "unknownShare": int(np.isnan(share).sum()),
        "stored": {names.get(each["values"], "elsewhere"): each["counts"] for each in stored},
        "bytes": int(_numbers(pc.struct_field(marked["deletion_vector"], "size")).sum()),
        "worst": [
            {
                "path": short(marked["path"][int(i)].as_py(), 500),
                "size": marked["size"][int(i)].as_py(),
                "rows": None if rows[i] < 0 else int(rows[i]),
                "deleted": int(deleted[i]),
            }
            for i in worst
        ],
    }


def partitions(snapshot: Snapshot) -> dict[str, Any]:
    """The partitions, the largest one by one."""
    columns = [snapshot.partition_field(name) for name in snapshot.partition_columns]
    if not columns:
        return {"columns": [], "partitions": [], "count": 0}
    files = snapshot.select(["size", "partition_values", "deletion_vector"])
    table = pa.table(
        {
            **{
                f"value.{i}": texts_of(files["partition_values"], field.physical_name)
                for i, field in enumerate(columns)
            },
            "size": files["size"],
            "rows": snapshot.statistics([])["num_records"],
            "small": pc.cast(pc.less(files["size"], Settings.of_table(snapshot.definition).min_file_size), pa.int64()),
            "deleted": pc.fill_null(pc.cast(pc.struct_field(files["deletion_vector"], "cardinality"), pa.int64()), 0),
        }
    )
    keys = [f"value.{i}" for i in range(len(columns))]
    unknown = pc.CountOptions(mode="only_null")
    grouped = table.group_by(keys).aggregate(
        [
            ("size", "sum"),
            ("size", "count"),
            ("rows", "sum"),
            ("small", "sum"),
            ("deleted", "sum"),
            ("rows", "count", unknown),
        ]
    )
    names = ["size_sum", "size_count", "rows_sum", "small_sum", "deleted_sum", "rows_count"]
    order = pc.sort_indices(grouped, [("size_sum", "descending")])
    shown = grouped.take(order[:_MOST_PARTITIONS]).select([*keys, *names]).to_pylist()
    rest = grouped.take(order[_MOST_PARTITIONS:])
    bytes_ = grouped["size_sum"]
    return {
        "columns": [field.name for field in columns],
        "count": grouped.num_rows,
        "partitions": [
            {
                "values": [text_of(each[key]) for key in keys],
                "bytes": each["size_sum"],
                "files": each["size_count"],
                "rows": None if each["rows_count"] else (each["rows_sum"] or 0) - each["deleted_sum"],
                "smallFiles": each["small_sum"],
            }
            for each in shown
        ],
        "rest": {
            "partitions": rest.num_rows,
            "bytes": pc.sum(rest["size_sum"]).as_py() or 0,
            "files": pc.sum(rest["size_count"]).as_py() or 0,
        },
        "bytesOfLargest": pc.max(bytes_).as_py() or 0,
        "bytesOfMedian": int(np.median(_numbers(bytes_))) if grouped.num_rows else 0,
    }


def _bars(size: np.ndarray) -> list[list[int]]:
    """Files and bytes of each bar."""
    place = np.searchsorted(np.array(EDGES), size, side="right")
    counts = np.bincount(place, minlength=len(EDGES) + 1)
    total = np.bincount(place, weights=size.astype(np.float64), minlength=len(EDGES) + 1)
    return [[int(count), int(amount)] for count, amount in zip(counts, total, strict=True)]


def _numbers(values: pa.ChunkedArray, missing: int = 0) -> np.ndarray:
    filled: np.ndarray = pc.fill_null(values.cast(pa.int64()), missing).to_numpy()
    return filled
