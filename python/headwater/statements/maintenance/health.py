"""The health of a table: DESCRIBE HEALTH, and what ``headwater health`` shows.

Owns the figures: files and rows, layout, what predicates read, the log, and what OPTIMIZE and VACUUM would do. What
they mean says :mod:`headwater.statements.maintenance.findings`.
Promises: they come from the log alone, and those of indexes from their files beside it; :func:`health` needs neither
Spark nor a JVM. No data file is read, but for keys that may be there twice although a primary key
is enforced; whether all are there is looked up for a local table, where that is cheap.
So VACUUM's figures are those of files that commits removed: without files that were never committed, and with those
that another engine's VACUUM has deleted already, if it left no note in the log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics import clock
from headwater.bridge.messages.define import RowsAnswer
from headwater.bridge.messages.maintain import DescribeHealthRequest
from headwater.bridge.statement import Statement
from headwater.iceberg import registration
from headwater.iceberg.standing import standing
from headwater.key_index.definition import declared
from headwater.key_index.segments import coverage
from headwater.log.files_elsewhere import lie_elsewhere
from headwater.log.history import format_timestamp, last_version_at
from headwater.log.lost_files import missing_files, named_files, root_of
from headwater.log.segment import LogListing, sort_files
from headwater.log.snapshot import Snapshot
from headwater.log.vacuum import needed_files, removed_between, unreferenced, without_links
from headwater.protocol import properties
from headwater.protocol.columns import format_name
from headwater.protocol.file_names import SIDECAR_DIRECTORY, log_directory
from headwater.protocol.indexed_columns import has_bounds
from headwater.protocol.types import PrimitiveType, StructType
from headwater.pruning import depths, prune
from headwater.schema import mapping
from headwater.schema.expectations import readable
from headwater.schema.iceberg import is_converted
from headwater.schema.keys import enforced_key
from headwater.sql.conditions import parse_condition
from headwater.statements.calls import own_statement
from headwater.statements.maintenance.duplicate_keys import duplicate_keys
from headwater.statements.maintenance.findings import findings, in_statements
from headwater.statements.maintenance.layouts import Settings, own_layout
from headwater.statements.maintenance.vacuum import last_vacuum
from headwater.statements.running.opening import open_snapshot
from headwater.statements.running.small_files import partition_of
from headwater.stores import Tree

_HOUR = 3_600_000
_CUBE = "ZCUBE_ID"
_STRING = PrimitiveType("string")
#: The sections of the facts, in order.
SECTIONS = (
    "table",
    "files",
    "rows",
    "clustering",
    "depth",
    "indexes",
    "skipping",
    "log",
    "optimize",
    "vacuum",
    "iceberg",
)
HEALTH_SCHEMA = StructType.of(section=_STRING, subject=_STRING, name=_STRING, value=_STRING)


class Fact(NamedTuple):
    """One figure.

    :param section: one of :data:`SECTIONS`.
    :param subject: the column of a depth, the name of an index, the predicate of what is skipped; None elsewhere.
    :param name: what it is; sizes are in bytes, times are UTC.
    :param value: None for what there is none of, or what the log does not say.
    """

    section: str
    subject: str | None
    name: str
    value: int | float | str | list[str] | None


@own_statement("describe", output=HEALTH_SCHEMA, commits=False, in_transaction=False, words="DESCRIBE HEALTH")
def describe_health(request: DescribeHealthRequest, statement: Statement) -> RowsAnswer:
    """A row of :data:`HEALTH_SCHEMA` for each finding, its level as the subject, then one for each fact.

    :raises HeadwaterError: those of opening a table; ``DELTA_ILLEGAL_OPTION``, ``DELTA_MISSING_COMMIT_TIMESTAMP``.
    """
    snapshot = open_snapshot(request.table, statement)
    facts = health(snapshot, Settings.of(statement, snapshot.definition))
    said = [
        Fact("findings", each.level, each.name, each.text)
        for each in findings(by_section(facts), in_statements(request.name))
    ]
    return RowsAnswer(rows=[{**fact._asdict(), "value": value_text(fact.value)} for fact in (*said, *facts)])


def by_section(facts: Sequence[Fact]) -> dict[str, Any]:
    """Facts by section and name, with all sections; those about columns or predicates have a dictionary of each."""
    found: dict[str, Any] = {section: {} for section in SECTIONS}
    for fact in facts:
        section = found[fact.section]
        (section if fact.subject is None else section.setdefault(fact.subject, {}))[fact.name] = fact.value
    return found


def value_text(value: int | float | str | list[str] | None) -> str | None:
    """A fact's value as text; None stays."""
    if isinstance(value, float):
        return f"{value:.2f}"
    return ", ".join(value) if isinstance(value, list) else None if value is None else str(value)


def health(
    snapshot: Snapshot, settings: Settings, conditions: Sequence[str] = (), *, has_depths: bool = True
) -> list[Fact]:
    """The facts of a snapshot, section by section.

    :param conditions: predicates as SQL text, each of which gets a subject of the section ``skipping``.
    :param has_depths: whether the section ``depth`` is among them, which takes longest and no finding rests on.
    :raises HeadwaterError: ``DELTA_MISSING_COMMIT_TIMESTAMP``.
    """
    now = clock.milliseconds()
    files = snapshot.select(["path", "size", "partition_values", "deletion_vector", "tags"])
    facts = [Fact("table", None, name, value) for name, value in _table(snapshot).items()]
    facts += [Fact("files", None, name, value) for name, value in file_figures(snapshot, files, settings).items()]
    facts.append(Fact("files", None, "partitions", len(set(map(partition_of, files["partition_values"].to_pylist())))))
    facts.append(Fact("files", None, "missingFiles", _missing(snapshot)))
    facts += [Fact("rows", None, name, value) for name, value in _rows(snapshot, files).items()]
    facts += [Fact("clustering", None, name, value) for name, value in clustering_figures(snapshot, files).items()]
    for path, depth in depths(snapshot, columns_with_bounds(snapshot) if has_depths else []).items():
        subject = format_name(path)
        facts.append(Fact("depth", subject, "average", depth.average))
        facts.append(Fact("depth", subject, "maximum", depth.maximum))
        facts.append(Fact("depth", subject, "filesWithoutBounds", depth.without_bounds))
    for index, figures in index_figures(snapshot).items():
        facts += [Fact("indexes", index, name, value) for name, value in figures.items()]
    for text in conditions:
        facts += [Fact("skipping", text, name, value) for name, value in _skipping(snapshot, files, text).items()]
    listing, size = whole_log(snapshot)
    facts += [Fact("log", None, name, value) for name, value in log_figures(snapshot, listing, size, now).items()]
    facts += [Fact("optimize", None, name, value) for name, value in optimize_figures(snapshot, settings).items()]
    facts += [Fact("vacuum", None, name, value) for name, value in vacuum_figures(snapshot, listing, now).items()]
    if is_converted(snapshot.definition):
        facts += [Fact("iceberg", None, name, value) for name, value in iceberg_figures(snapshot).items()]
    return facts


def _table(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "path": snapshot.table_path,
        "version": snapshot.version,
        "committed": format_timestamp(snapshot.timestamp),
        **expected(snapshot),
    }


def expected(snapshot: Snapshot) -> dict[str, list[str]]:
    """The names of a table's expectations, as ``expectations``; nothing of a table that has none."""
    names = [each.name for each in readable(snapshot.metadata.configuration)]
    return {"expectations": names} if names else {}


def file_figures(snapshot: Snapshot, files: pa.Table, settings: Settings) -> dict[str, Any]:
    """The section ``files`` without the number of partitions; ``files`` has the columns ``path`` and ``size``."""
    elsewhere = pc.filter(files["size"], lie_elsewhere(files["path"], snapshot.table_path))
    small = pc.filter(files["size"], pc.less(files["size"], settings.min_file_size))
    return {
        "files": files.num_rows,
        "bytes": _sum(files["size"]),
        # A shallow clone: VACUUM of the tables that these belong to knows nothing of it, and may delete them.
        "filesElsewhere": len(elsewhere),
        "bytesElsewhere": _sum(elsewhere),
        "averageBytes": round(_sum(files["size"]) / files.num_rows) if files.num_rows else None,
        "smallFiles": len(small),
        "smallBytes": _sum(small),
        "smallerThan": settings.min_file_size,
    }


def _missing(snapshot: Snapshot) -> int | None:
    """How many data files and files of deletion vectors are missing; None if that was not looked up, or if the file
    system failed.
    """
    if not snapshot.store.is_local:
        return None
    paths = [path for path in named_files(snapshot).paths() if not root_of(path)]
    with contextlib.suppress(OSError):
        return len(missing_files(paths, lambda path: snapshot.store))
    return None


def _rows(snapshot: Snapshot, files: pa.Table) -> dict[str, Any]:
    records = snapshot.statistics([])["num_records"]
    deleted = _sum(pc.struct_field(files["deletion_vector"], "cardinality"))
    return {
        "rows": None if records.null_count else _sum(records) - deleted,
        "deletedRows": deleted,
        "filesWithDeletedRows": files.num_rows - files["deletion_vector"].null_count,
        "filesWithoutStatistics": records.null_count,
    }


def clustering_figures(snapshot: Snapshot, files: pa.Table) -> dict[str, Any]:
    """The section ``clustering``; ``files`` has the column ``tags``."""
    cubes = pc.map_lookup(files["tags"], pa.scalar(_CUBE), "first")
    return {
        "columns": [format_name(path) for path in snapshot.clustering_columns or ()],
        "cubes": len(pc.unique(cubes.drop_null())),
        "filesInCubes": len(cubes) - cubes.null_count,
    }


def columns_with_bounds(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """The logical paths of the columns that have bounds; those that the table is clustered by come first."""
    indexed = snapshot.definition.indexed_leaves
    paths = [mapping.logical_path(snapshot.schema, path) for path, kind in indexed if has_bounds(kind)]
    clustered = snapshot.clustering_columns or ()
    return list(dict.fromkeys([*map(tuple, clustered), *(tuple(path) for path in paths if path is not None)]))


def index_figures(snapshot: Snapshot) -> dict[str, dict[str, Any]]:
    """The section ``indexes``: the figures of each index, by its name. ``shareOfBytes`` compares the index with the
    data files; ``problem`` says why an index is not used. ``duplicateKeys``, of one by which a primary key is enforced:
    keys that are in several rows, which other engines wrote; null if it cannot be said.
    """
    found = {}
    for each in declared(snapshot.definition):
        figures: dict[str, Any] = {"columns": each.columns}
        if each.key_index is None:
            figures["problem"] = each.problem
        else:
            covered = coverage(snapshot, each.key_index)
            share = covered.size / snapshot.size_in_bytes if snapshot.size_in_bytes else None
            figures |= {"filesCovered": covered.files, "filesMissing": covered.all_files - covered.files}
            figures |= {"segments": covered.segments, "bytes": covered.size, "shareOfBytes": share}
            if enforced_key(snapshot.definition) is not None:
                figures["duplicateKeys"] = duplicate_keys(snapshot, each.key_index)
        found[each.name] = figures
    return found


def _skipping(snapshot: Snapshot, files: pa.Table, text: str) -> dict[str, Any]:
    condition = parse_condition(text, snapshot)
    read = prune(snapshot, condition.predicate)
    return {
        "filesRead": read.true_count,
        "filesSkipped": len(read) - read.true_count,
        "bytesRead": _sum(files["size"].filter(read)),
        "notUnderstood": condition.not_understood,
    }


def whole_log(snapshot: Snapshot) -> tuple[LogListing, int]:
    """The whole log, and the bytes of all its files."""
    directory = log_directory(snapshot.table_path)
    found = snapshot.store.list_from(directory)
    try:
        sidecars = snapshot.store.list_from(f"{directory}/{SIDECAR_DIRECTORY}")
    except (FileNotFoundError, NotADirectoryError):
        sidecars = []
    return sort_files(snapshot.table_path, found), sum(file.size for file in (*found, *sidecars))


def log_figures(snapshot: Snapshot, listing: LogListing, size: int, now: int) -> dict[str, Any]:
    """The section ``log``; ``listing`` and ``size`` are those of :func:`whole_log`."""
    checkpoint = next((each for each in listing.checkpoints if each.version <= snapshot.version), None)
    written = None if checkpoint is None else max(file.modification_time for file in checkpoint.files)
    first = min(listing.commits, default=None)
    return {
        "bytes": size,
        "commits": len(listing.commits),
        "earliestVersion": listing.earliest,
        "earliestCommit": None if first is None else format_timestamp(listing.commits[first].modification_time),
        "hoursSinceLastCommit": max(now - snapshot.timestamp, 0) / _HOUR,
        "lastCheckpoint": None if checkpoint is None else checkpoint.version,
        "hoursSinceLastCheckpoint": None if written is None else max(now - written, 0) / _HOUR,
        "commitsSinceLastCheckpoint": snapshot.version - (-1 if checkpoint is None else checkpoint.version),
        "tombstones": snapshot.tombstones().num_rows,
    }


def optimize_figures(snapshot: Snapshot, settings: Settings) -> dict[str, Any]:
    """The section ``optimize``."""
    layout = own_layout(snapshot, settings)
    choice = layout.choose(snapshot, pa.array(np.ones(snapshot.num_files, bool)))
    return {
        "filesRemoved": sum(len(each.positions) for each in choice.bins),
        "bytesRead": sum(each.size for each in choice.bins),
        "filesAdded": sum(layout.num_outputs(each.size) for each in choice.bins),
        "bytesWritten": sum(choice.live_bytes(each) for each in choice.bins),
    }


def vacuum_figures(snapshot: Snapshot, listing: LogListing, now: int) -> dict[str, Any]:
    """The section ``vacuum``.

    :raises HeadwaterError: ``DELTA_MISSING_COMMIT_TIMESTAMP``.
    """
    retention = snapshot.definition.get(properties.FILE_RETENTION)
    before = now - retention
    outside = last_version_at(listing, snapshot, before)
    known = last_vacuum(snapshot)
    first = max(min(listing.commits, default=0), 0 if known is None else known + 1)
    removed, _ = removed_between(snapshot, listing, first, -1 if outside is None else outside, before)
    found = without_links(snapshot, Tree(removed, []))
    files, _ = unreferenced(found, needed_files(snapshot, before), before) if found.files else ([], [])
    tombstones = snapshot.tombstones()
    kept = tombstones.filter(pc.greater_equal(pc.fill_null(tombstones["deletion_timestamp"], 0), before))
    return {
        "retentionHours": retention / _HOUR,
        "filesDeleted": len(files),
        "bytesDeleted": sum(file.size for file in files),
        "filesRetained": kept.num_rows,
        "bytesRetained": _sum(kept["size"]),
        "cleanedUpToVersion": known,
    }


def iceberg_figures(snapshot: Snapshot) -> dict[str, Any]:
    """The section ``iceberg``, of a table with Iceberg metadata. Why it is behind, and what became of its entry in a
    catalog, is what this process has seen.
    """
    converted, behind, failure = standing(snapshot)
    entry = registration.state_of(snapshot.table_path)
    return {
        "convertedVersion": converted,
        "versionsBehind": behind,
        "catalogEntry": registration.entry_of(snapshot),
        "registeredVersion": entry.version,
        "failure": failure or entry.failure,
    }


def _sum(values: Any) -> int:
    return pc.sum(values).as_py() or 0
