"""What each table feature leaves in a table, and how it is removed before the feature is dropped.

Owns, for every feature that can be dropped (:data:`REMOVALS`): the commits that switch it off and remove its traces
from the current version, the check that none is left, and the check whether an old commit uses it. Follows the
protocol's chapters of the features. Promises: rows, and columns as users see them, stay as they are; what would change
them is refused and left to the user. Each step may be repeated, and runs again after a lost race.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.definition.changes import unmapped, without_properties
from headwater.log import deletion_vectors
from headwater.log.checkpoint_reading import CheckpointFiles, is_v2
from headwater.log.commits import ParsedActions
from headwater.log.files import canonical_path, file_of, vector_of
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import Metadata, RemoveFile
from headwater.protocol.column_metadata import TYPE_CHANGES
from headwater.protocol.columns import all_fields, format_name, map_fields
from headwater.protocol.features import (
    CHECKPOINT_PROTECTION,
    FEATURES,
    Feature,
    in_commit_timestamps_enabled,
    with_previews,
)
from headwater.protocol.partition_paths import encode_path
from headwater.protocol.properties import CONSTRAINT_PREFIX, Property
from headwater.protocol.types import StructType
from headwater.schema import mapping
from headwater.schema.checks import INVALID_CHARACTERS
from headwater.statements.files.rows import Target
from headwater.statements.maintenance.file_rewrites import KeptCopies, OldTypes, metrics_of, rewrite_files
from headwater.statements.running.committing import commit, removals, transaction
from headwater.statements.running.opening import open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.statements.tables.alter_commit import alter
from headwater.statements.tables.draft import Draft, Operation
from headwater.statements.tables.row_tracking import files_per_commit
from headwater.stores import Store
from headwater.transaction.commit_info import Provenance


@dataclass(frozen=True)
class Work:
    """The table that a statement works on; ``name`` as errors show it."""

    table: str
    name: str
    statement: Statement

    def snapshot(self) -> Snapshot:
        """The newest version."""
        return open_snapshot(self.table, self.statement)

    def alter(self, alteration: Callable[[Draft], Operation]) -> bool:
        """Change the definition by a commit that is not the statement's last; whether there was anything to change."""
        changed = False

        def noting(draft: Draft) -> Operation:
            nonlocal changed
            operation = alteration(draft)
            changed = draft.changes_anything
            return operation

        alter(self.table, self.name, self.statement, noting, is_last=False)
        return changed

    def configure(self, given: Mapping[str, str] | None = None, unset: Iterable[str] = ()) -> bool:
        """Set and unset table properties; whether any was another."""
        gone = list(unset)

        def properties_of(draft: Draft) -> Operation:
            before = draft.metadata.configuration
            after = {key: value for key, value in {**before, **(given or {})}.items() if key not in gone}
            if after != before:
                draft.set_configuration(after)
            if given:
                return Operation("SET TBLPROPERTIES", {"properties": dict(given)})
            return Operation("UNSET TBLPROPERTIES", {"properties": gone, "ifExists": True})

        return self.alter(properties_of)

    def repeat(self, attempt: Callable[[], bool]) -> bool:
        """Make an attempt at a commit, again after lost races; what it returns."""
        return run_again_after_losses(self.table, self.statement, attempt)


def _nothing_to_do(work: Work) -> bool:
    return False


def _no_trace(snapshot: Snapshot) -> str | None:
    return None


class Uses(NamedTuple):
    """What of a commit, or of all files of a version, shows which features it uses.

    ``file_fields``: the fields of file actions that some file has.
    """

    metadata: Metadata | None
    file_fields: frozenset[str]

    @staticmethod
    def of_commit(actions: ParsedActions) -> Uses:
        """Of a commit's actions."""
        return Uses(actions.metadata, _filled(actions.files.adds()) | _filled(actions.files.removes()))

    @staticmethod
    def of_version(snapshot: Snapshot) -> Uses:
        """Of a version. Its tombstones are of no use to its readers, and do not count."""
        return Uses(snapshot.metadata, _filled(snapshot.files))

    def shows(self, feature: Feature) -> bool:
        """Whether they show that a feature is used."""
        if not self.file_fields.isdisjoint(feature.file_fields):
            return True
        return self.metadata is not None and feature.is_left_in(self.metadata)


_FILE_FIELDS = frozenset(field for feature in FEATURES.values() for field in feature.file_fields)


def _filled(files: pa.Table) -> frozenset[str]:
    """The fields of file actions that belong to features and that some of these files has."""
    found = (name for name in _FILE_FIELDS.intersection(files.column_names))
    return frozenset(name for name in found if files[name].null_count < len(files))


def _never_in_checkpoint(checkpoint: CheckpointFiles, store: Store) -> bool:
    return False


@dataclass(frozen=True)
class _Steps:
    """What has to be done for a feature, beside taking away what its declaration names as its own.

    :param prepare: removes the feature's traces from the current version; whether there were any.
    :param trace: what of a version still uses the feature, in words; None for nothing.
    :param in_checkpoint: whether a checkpoint itself, not what it holds, uses the feature.
    """

    prepare: Callable[[Work], bool] = _nothing_to_do
    trace: Callable[[Snapshot], str | None] = _no_trace
    in_checkpoint: Callable[[CheckpointFiles, Store], bool] = _never_in_checkpoint


@dataclass(frozen=True)
class Removal:
    """How a feature is taken away.

    :param feature: what its declaration says; None if nothing is taken away, as its preview keeps using all of it.
    """

    feature: Feature | None = None
    steps: _Steps = _Steps()

    def prepare(self, work: Work) -> bool:
        """Remove the feature's traces from the current version; whether there were any."""
        return self.steps.prepare(work)

    def trace(self, snapshot: Snapshot) -> str | None:
        """What of a version still uses the feature, in words; None for nothing."""
        return self.steps.trace(snapshot)

    def used_by(self, uses: Uses) -> bool:
        """Whether an old commit or version uses the feature. Only asked of features of readers."""
        return self.feature is not None and uses.shows(self.feature)

    def in_checkpoint(self, checkpoint: CheckpointFiles, store: Store) -> bool:
        """Whether a checkpoint itself uses the feature."""
        return self.steps.in_checkpoint(checkpoint, store)

    @property
    def is_traced_in_files(self) -> bool:
        """Whether files of a version, beside its definition, may be a trace."""
        return self.feature is not None and bool(self.feature.file_fields)

    def finish(self, draft: Draft) -> None:
        """Take the feature's own properties and domains away."""
        if self.feature is None:
            return
        draft.definition = without_properties(draft.definition, self.feature.own_properties)
        domains = draft.snapshot.domain_metadata
        draft.domains.extend(
            replace(domains[name], removed=True) for name in self.feature.own_domains if name in domains
        )


def _without(configuration: Mapping[str, str], gone: Iterable[Property[Any]]) -> dict[str, str]:
    names = {known.name for known in gone}
    return {key: value for key, value in configuration.items() if key not in names}


def _files_with(snapshot: Snapshot, feature: str) -> pa.Table:
    """The files of a version that have a field of a feature."""
    files = snapshot.files
    filled = (pc.is_valid(files[field]) for field in FEATURES[feature].file_fields)
    return files.filter(reduce(pc.or_, filled))


# Deletion vectors


def _prepare_vectors(work: Work) -> bool:
    """First nobody may write a vector any more, then the files that have one are rewritten."""
    changed = work.configure(unset=[properties.DELETION_VECTORS.name])
    rewritten = rewrite_files(work.table, work.statement, lambda found: _files_with(found, "deletionVectors"))
    work.repeat(lambda: _keep_vector_files(work))
    return changed or rewritten > 0


def _keep_vector_files(work: Work) -> bool:
    """Commit tombstones of the files that vectors lie in.

    VACUUM of an engine that does not know vectors would delete them, as only the tombstones of data files name them.
    Older versions need them, as long as the retention lets those be read.
    """
    snapshot = work.snapshot()
    now = clock.milliseconds()
    missing = sorted(_vector_files(snapshot, now))
    if not missing:
        return False
    txn = transaction(work.table, work.statement, snapshot)
    txn.remove(RemoveFile(encode_path(path), now, data_change=False) for path in missing)
    metrics = {"numDeletionVectorTombstones": len(missing)}
    commit(txn, work.statement, Provenance("Deletion Vector Tombstones", {}, metrics), is_last=False)
    return True


def _vector_files(snapshot: Snapshot, now: int) -> set[str]:
    """The files, relative to the table, that vectors of unexpired tombstones lie in, and that have no tombstone."""
    retention = snapshot.definition.get(properties.FILE_RETENTION)
    tombstones = snapshot.tombstones()
    tombstones = tombstones.filter(pc.greater(tombstones["deletion_timestamp"], now - retention))
    with_vector = pc.is_valid(tombstones["deletion_vector"])
    known = {canonical_path(path) for path in tombstones.filter(pc.invert(with_vector))["path"].to_pylist()}
    below = f"{snapshot.table_path}/"
    found = set()
    for value in tombstones.filter(with_vector)["deletion_vector"].to_pylist():
        vector = vector_of(value)
        if vector is None or vector.storage_type == deletion_vectors.INLINE:
            continue
        location = canonical_path(deletion_vectors.absolute_location(vector, snapshot.table_path))
        if location.startswith(below):  # VACUUM looks nowhere else
            found.add(location[len(below) :])
    return found - known


def _trace_of_vectors(snapshot: Snapshot) -> str | None:
    if snapshot.definition.get(properties.DELETION_VECTORS):
        return f"{properties.DELETION_VECTORS.name} is set again"
    return "files have deletion vectors again" if snapshot.has_deletion_vectors else None


# Column mapping


def remove_mapping(work: Work) -> bool:
    """Have the table's files written again under the names that users see; whether there was anything to do.

    One commit: until then files are read by physical names, from then on by those that users see.

    An attempt that loses to an append copies the new files alone: what was copied before is still right.
    """
    copies = KeptCopies()
    return run_again_after_losses(work.table, work.statement, lambda: _remove_mapping(work, copies), discards=False)


def _remove_mapping(work: Work, copies: KeptCopies) -> bool:
    statement, snapshot = work.statement, work.snapshot()
    if _trace_of_mapping(snapshot) is None:
        return False
    check_names(snapshot)
    definition = unmapped(snapshot.definition)
    is_mapped = snapshot.definition.maps_columns
    files = snapshot.files if is_mapped else snapshot.files.slice(0, 0)
    txn = transaction(work.table, statement, snapshot)
    txn.read_whole_table()
    made = copies.of(statement, snapshot, files, Target(snapshot.table_path, definition))
    # Not as moved rows: another writer's marks cannot follow them to a definition that it does not know.
    txn.remove(removals(files, data_change=False))
    txn.add(output for copy in made for output in copy.outputs)
    txn.redefine(definition)
    metrics = metrics_of(made)
    commit(txn, statement, Provenance("REMOVE COLUMN MAPPING", {}, metrics), is_last=False)
    return True


def check_names(snapshot: Snapshot) -> None:
    """Refuse names that files cannot have.

    :raises HeadwaterError: ``DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING``.
    """
    bad = [format_name(path) for path, f in all_fields(snapshot.schema) if set(f.name) & set(INVALID_CHARACTERS)]
    if bad:
        raise HeadwaterError(
            "DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING", {"invalidColumnNames": ", ".join(bad)}
        )


def _trace_of_mapping(snapshot: Snapshot) -> str | None:
    if snapshot.definition.get(properties.COLUMN_MAPPING_MODE) != "none":
        return "column mapping is switched on again"
    if mapping.strip(snapshot.schema) != snapshot.schema:
        return "columns have ids or physical names"
    return None


# Type widening


class _OldTypesCameBack(Exception):
    """A writer added files with old types since they were rewritten, such as one that restored a version."""


def _prepare_widening(work: Work) -> bool:
    """First no type may be widened any more, then the files with old types are rewritten; at last their record goes,
    which readers need for those files.
    """
    changed = work.configure(unset=[properties.TYPE_WIDENING.name])
    old_types = OldTypes()

    def forget(draft: Draft) -> Operation:
        before = draft.schema
        names = [format_name(path) for path, field in all_fields(before) if TYPE_CHANGES in field.metadata]
        if names:
            draft.reads_rows = draft.follows_directly = True
            if old_types.files(draft.snapshot).num_rows:
                raise _OldTypesCameBack
            draft.set_schema(_without_type_changes(before))
        return Operation("DROP FEATURE", {"columns": names})

    while True:
        changed = rewrite_files(work.table, work.statement, old_types.files) > 0 or changed
        try:
            return work.alter(forget) or changed
        except _OldTypesCameBack:
            work.statement.check_cancelled()


def _without_type_changes(schema: StructType) -> StructType:
    return map_fields(
        schema, lambda f, _: replace(f, metadata={k: v for k, v in f.metadata.items() if k != TYPE_CHANGES})
    )


def _trace_of_widening(snapshot: Snapshot) -> str | None:
    if snapshot.definition.get(properties.TYPE_WIDENING):
        return f"{properties.TYPE_WIDENING.name} is set again"
    for path, column in all_fields(snapshot.schema):
        if TYPE_CHANGES in column.metadata:
            return f"the type of {format_name(path)} was widened again"
    return None


# Row tracking


def _prepare_row_tracking(work: Work) -> bool:
    """First writers must give no row ids any more, then files lose theirs."""
    changed = work.configure({properties.ROW_TRACKING.name: "false", properties.ROW_TRACKING_SUSPENDED.name: "true"})
    batch = files_per_commit(work.statement)

    def take_ids() -> bool:
        snapshot = work.snapshot()
        files = _files_with(snapshot, "rowTracking").slice(0, batch)
        if not files.num_rows:
            return False
        txn = transaction(work.table, work.statement, snapshot)
        txn.add_again(
            replace(file_of(row), base_row_id=None, default_row_commit_version=None) for row in files.to_pylist()
        )
        parameters = {"numFiles": files.num_rows}
        commit(txn, work.statement, Provenance("ROW TRACKING UNBACKFILL", parameters), is_last=False)
        return True

    while work.repeat(take_ids):
        changed = True
        work.statement.check_cancelled()
    return changed


def _trace_of_row_tracking(snapshot: Snapshot) -> str | None:
    definition = snapshot.definition
    if definition.get(properties.ROW_TRACKING) or not definition.get(properties.ROW_TRACKING_SUSPENDED):
        return "row tracking is switched on again"
    return "files have row ids again" if _files_with(snapshot, "rowTracking").num_rows else None


# V2 checkpoints


def _prepare_checkpoints(work: Work) -> bool:
    """The barrier of classic checkpoints, which follows, replaces V2 checkpoints."""
    snapshot = work.snapshot()
    if _trace_of_checkpoints(snapshot) is None:
        return False
    work.configure({properties.CHECKPOINT_POLICY.name: "classic"})
    return True


def _trace_of_checkpoints(snapshot: Snapshot) -> str | None:
    if snapshot.definition.get(properties.CHECKPOINT_POLICY) == "v2":
        return f"{properties.CHECKPOINT_POLICY.name} is set to v2 again"
    checkpoints = list_log(snapshot.table_path, snapshot.store).checkpoints
    newest = next((checkpoint for checkpoint in checkpoints if checkpoint.version <= snapshot.version), None)
    return "its newest checkpoint is a V2 checkpoint" if newest is not None and is_v2(newest, snapshot.store) else None


# In-commit timestamps


def _prepare_timestamps(work: Work) -> bool:
    def disable(draft: Draft) -> Operation:
        before = draft.metadata.configuration
        after = _without(before, properties.IN_COMMIT_TIMESTAMPS_SINCE)
        if in_commit_timestamps_enabled(draft.metadata):
            after[properties.IN_COMMIT_TIMESTAMPS.name] = "false"
        names = [key for key in before if after.get(key) != before[key]]
        if names:
            draft.set_configuration(after)
        return Operation("UNSET TBLPROPERTIES", {"properties": names, "ifExists": True})

    return work.alter(disable)


def _trace_of_timestamps(snapshot: Snapshot) -> str | None:
    is_used = snapshot.definition.has_in_commit_timestamps
    if is_used or any(snapshot.definition.sets(known) for known in properties.IN_COMMIT_TIMESTAMPS_SINCE):
        return "in-commit timestamps are switched on again"
    return None


# Constraints and domains


def _check_constraints(work: Work) -> bool:
    """Constraints are the user's: nobody else drops them.

    :raises HeadwaterError: ``DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE``.
    """
    names = _constraints(work.snapshot())
    if names:
        raise HeadwaterError(
            "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE", {"tableName": work.name, "constraints": ", ".join(names)}
        )
    return False


def _constraints(snapshot: Snapshot) -> list[str]:
    keys = (key for key in snapshot.metadata.configuration if key.lower().startswith(CONSTRAINT_PREFIX))
    return sorted(key[len(CONSTRAINT_PREFIX) :] for key in keys)


def _trace_of_constraints(snapshot: Snapshot) -> str | None:
    names = _constraints(snapshot)
    return f"the constraint {names[0]} was added" if names else None


def _prepare_domains(work: Work) -> bool:
    def remove(draft: Draft) -> Operation:
        domains = draft.snapshot.domain_metadata.values()
        draft.domains.extend(replace(domain, removed=True) for domain in domains)
        return Operation("DOMAIN METADATA CLEANUP", {"domainMetadataRemovedCount": len(draft.domains)})

    return work.alter(remove)


def _trace_of_domains(snapshot: Snapshot) -> str | None:
    names = sorted(snapshot.domain_metadata)
    return f"the metadata domain {names[0]} was added" if names else None


# Checkpoint protection


def protected_before(snapshot: Snapshot) -> int:
    """The first version that is not protected; 0 where none is."""
    return snapshot.definition.get(properties.PROTECTED_BEFORE)


def _trace_of_protection(snapshot: Snapshot) -> str | None:
    version = protected_before(snapshot)
    listing = list_log(snapshot.table_path, snapshot.store)
    left = [found for found in (*listing.commits, *(c.version for c in listing.checkpoints)) if found < version]
    return f"the log has version {min(left)}, and versions before {version} are protected" if left else None


# Shapes


def _check_shapes(work: Work) -> bool:
    """Columns are the user's: nobody else drops them.

    :raises HeadwaterError: ``HEADWATER_FEATURE_IN_USE``.
    """
    column = _shape(work.snapshot().metadata)
    if column is not None:
        raise HeadwaterError("HEADWATER_FEATURE_IN_USE", {"tableName": work.name, "column": column})
    return False


def _shape(metadata: Metadata) -> str | None:
    """A column of a type GEOMETRY or GEOGRAPHY, at any depth; None if the schema has no such column."""
    found = next(FEATURES["geospatial"].columns_with_types(metadata.schema), None)
    return None if found is None else format_name(found)


def _trace_of_shapes(snapshot: Snapshot) -> str | None:
    column = _shape(snapshot.metadata)
    return None if column is None else f"the column {column} was added"


#: By the feature, which also has those of its preview.
_STEPS: Mapping[str, _Steps] = {
    "checkConstraints": _Steps(_check_constraints, _trace_of_constraints),
    "columnMapping": _Steps(remove_mapping, _trace_of_mapping),
    "deletionVectors": _Steps(_prepare_vectors, _trace_of_vectors),
    "domainMetadata": _Steps(_prepare_domains, _trace_of_domains),
    "geospatial": _Steps(_check_shapes, _trace_of_shapes),
    "inCommitTimestamp": _Steps(_prepare_timestamps, _trace_of_timestamps),
    "rowTracking": _Steps(_prepare_row_tracking, _trace_of_row_tracking),
    "typeWidening": _Steps(_prepare_widening, _trace_of_widening),
    "v2Checkpoint": _Steps(_prepare_checkpoints, _trace_of_checkpoints, is_v2),
    # Its own commits truncate the history.
    CHECKPOINT_PROTECTION: _Steps(trace=_trace_of_protection),
}


def _removal(feature: Feature) -> Removal:
    declared = with_previews(feature)[0]
    return Removal(declared, _STEPS.get(declared.name, _Steps()))


#: How each feature is taken away that can be dropped and that Headwater writes, by its name.
REMOVALS: Mapping[str, Removal] = {
    name: _removal(feature) for name, feature in FEATURES.items() if feature.droppable and feature.writes
}
