"""ALTER TABLE … DROP FEATURE: removes a feature from a table's protocol, so that clients without it can use the table.

In this order: remove the feature's traces from the current version (:mod:`.feature_removal`); keep older clients from
the versions that still have some; drop the feature from the protocol, in a commit of its own. A feature of writers
alone needs no care for older versions. For one of readers there are two ways:

- Checkpoints, three of them, each after an empty commit: clients that read the newest version never look behind them.
  The table gets the feature ``checkpointProtection``, so that no writer's log cleanup removes these checkpoints and
  leaves the versions before.
- TRUNCATE HISTORY: no version with traces is left. The first call removes the traces from the current version and says
  how long to wait, since readers may still use older versions; a later one deletes those from the log and drops the
  feature.

Follows the protocol's chapters "Table Features" and "Protocol Evolution". Promises: a protocol without the feature is
committed only on a version without its traces. If the statement ends early, the table is whole, and the statement can
be repeated. Once that commit stands, the statement does not fail.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from headwater.basics import backoff
from headwater.basics.errors import HeadwaterError
from headwater.basics.suggestions import did_you_mean
from headwater.bridge.messages.define import CommitAnswer, DropFeatureRequest
from headwater.bridge.statement import Statement
from headwater.definition.changes import changed
from headwater.definition.requirements import without_feature
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.cleanup import clean_up, truncate
from headwater.log.commits import parse_actions
from headwater.log.history import CommitTimes, format_timestamp
from headwater.log.segment import LogListing, list_log
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol import properties
from headwater.protocol.features import (
    CHECKPOINT_PROTECTION,
    FEATURES,
    Feature,
    supported_features,
    with_previews,
)
from headwater.statements.calls import own_statement
from headwater.statements.running.committing import commit, transaction
from headwater.statements.settings import DROPS_BY_CHECKPOINTS
from headwater.statements.tables.alter_commit import alter
from headwater.statements.tables.draft import Draft, Operation
from headwater.statements.tables.feature_traces import REMOVALS, Removal, Uses, Work, protected_before
from headwater.transaction.commit_info import Provenance

_LOG = logging.getLogger(__name__)
#: As many as clients try, from the newest back, if they find one that they cannot read.
_BARRIER_CHECKPOINTS = 3
_CHECKPOINT_ATTEMPTS = 3
#: How many commits are read at a time, which bounds memory.
_READ_AT_ONCE = 256
_DAY = 24 * 3600 * 1000


@own_statement("alter", output=None, commits=True, in_transaction=False, words="ALTER TABLE")
def drop_feature(request: DropFeatureRequest, statement: Statement) -> CommitAnswer:
    """Drop a feature.

    :raises HeadwaterError: those of :func:`_check`; ``DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD``,
        ``DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST`` and
        ``DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD``, which say until when to wait;
        ``DELTA_FEATURE_DROP_CHECKPOINT_FAILED``; ``DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL``; what the feature's
        own steps raise.
    """
    work = Work(request.table, request.name, statement)
    truncates = request.arguments.truncate_history
    feature = _check(request.arguments.feature, work, truncates)
    drop = _Drop(work, feature, truncates)
    if feature.name == CHECKPOINT_PROTECTION:
        drop.truncate_protected()
        return drop.commit(protects=False)
    prepared = drop.prepare()
    if not feature.reader:
        return drop.commit(protects=False)
    if truncates or not DROPS_BY_CHECKPOINTS.of(statement):
        drop.truncate_history(prepared)
        return drop.commit(protects=False)
    for _ in range(_BARRIER_CHECKPOINTS):
        drop.add_checkpoint()
    answer = drop.commit(protects=True)
    try:
        drop.checkpoint()
    except (OSError, HeadwaterError) as error:
        # The feature is gone, and the next checkpoint does as well.
        _LOG.warning("%s: the feature %s was dropped, but: %s", request.table, feature.name, error)
    return answer


def _check(asked: str, work: Work, truncates: bool) -> Feature:
    """The feature that is meant.

    :raises HeadwaterError: ``DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY``,
        ``DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE``, ``DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT``,
        ``DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE``, ``DELTA_FEATURE_DROP_DEPENDENT_FEATURE``,
        ``DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED``,
        ``DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION``;
        ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE`` if another feature of the table prevents writing.
    """
    snapshot = work.snapshot()
    present = supported_features(snapshot.protocol)
    by_folded_name = {name.lower(): name for name in (*FEATURES, *present)}
    name = by_folded_name.get(asked.lower())
    if name is None and properties.canonical_name(asked, allow_arbitrary=True) in properties.PROPERTIES:
        raise HeadwaterError("DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY", {"property": asked})
    if name is None or name not in FEATURES:
        suggestion = ""
        if name is None:
            suggestion = did_you_mean(asked, present) or did_you_mean(asked, by_folded_name.values())
        raise HeadwaterError(
            "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE",
            {"feature": asked, "suggestion": suggestion, "present": _names(present)},
        )
    feature = FEATURES[name]
    if name not in present:
        raise HeadwaterError(
            "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT",
            {"feature": name, "tableName": work.name, "present": _names(present)},
        )
    if not feature.droppable:
        raise HeadwaterError(
            "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE",
            {"feature": name, "tableName": work.name, "removable": _names(n for n in present if _is_droppable(n))},
        )
    dependent = [other for other in present if other in FEATURES and name in FEATURES[other].requires]
    if dependent:
        raise HeadwaterError(
            "DELTA_FEATURE_DROP_DEPENDENT_FEATURE",
            {"feature": name, "dependentFeatures": _names(dependent), "tableName": work.name},
        )
    if name == CHECKPOINT_PROTECTION and not truncates:
        raise HeadwaterError(
            "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION", {"tableName": work.name}
        )
    if truncates and not feature.reader and name != CHECKPOINT_PROTECTION:
        raise HeadwaterError(
            "DELTA_FEATURE_DROP_HISTORY_TRUNCATION_NOT_ALLOWED", {"feature": name, "tableName": work.name}
        )
    if name not in REMOVALS:
        raise HeadwaterError(
            "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE",
            {"feature": name, "suggestion": "", "present": _names(present)},
        )
    snapshot.check_writable()
    return feature


def _is_droppable(name: str) -> bool:
    return name in FEATURES and FEATURES[name].droppable


def _names(features: Iterable[str]) -> str:
    return ", ".join(sorted(features)) or "none"


class _Wait(NamedTuple):
    """How long to wait: for versions to become older than a retention, and when they are."""

    property: str
    retention: str
    until: int


class _Drop:
    """The steps of one statement."""

    def __init__(self, work: Work, feature: Feature, truncates: bool) -> None:
        self._work = work
        self._feature = feature
        self._truncates = truncates
        snapshot = work.snapshot()
        # Where the feature's preview, or the other way round, stays: all that one uses, the other does.
        present = supported_features(snapshot.protocol)
        stays = any(other.name in present for other in with_previews(feature) if other is not feature)
        self._removal = Removal() if stays else REMOVALS[feature.name]

    def prepare(self) -> bool:
        """Remove the feature's traces from the current version; whether there were any."""
        return self._removal.prepare(self._work)

    def add_checkpoint(self) -> Snapshot:
        """An empty commit with a checkpoint: it holds nothing that the feature was used for."""
        work = self._work
        txn = transaction(work.table, work.statement, work.snapshot())
        commit(txn, work.statement, Provenance("Empty Commit"), is_last=False)
        return self.checkpoint()

    def checkpoint(self) -> Snapshot:
        """Write the checkpoint of the newest version.

        :raises HeadwaterError: ``DELTA_FEATURE_DROP_CHECKPOINT_FAILED``.
        """
        snapshot = self._work.snapshot()
        try:
            write = partial(write_checkpoint, snapshot)
            backoff.OF_LOOKS.insist(write, _CHECKPOINT_ATTEMPTS, lambda error: isinstance(error, OSError))
        except OSError as failure:
            raise HeadwaterError(
                "DELTA_FEATURE_DROP_CHECKPOINT_FAILED",
                {"featureName": self._feature.name, "version": snapshot.version, "reason": failure},
            ) from failure
        return snapshot

    def commit(self, *, protects: bool) -> CommitAnswer:
        """Drop the feature from the protocol.

        :param protects: whether the versions before get the protection of their checkpoints.
        """

        def downgrade(draft: Draft) -> Operation:
            snapshot, name = draft.snapshot, self._feature.name
            operation = Operation("DROP FEATURE", {"featureName": name, "truncateHistory": self._truncates})
            if name not in supported_features(snapshot.protocol):
                return operation  # another statement dropped it meanwhile
            trace = self._removal.trace(snapshot)
            if trace is not None:
                raise HeadwaterError(
                    "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL",
                    {"feature": name, "tableName": draft.name, "version": snapshot.version, "trace": trace},
                )
            self._removal.finish(draft)
            # What writers commit meanwhile may use the feature, also in files that only rearrange rows; and what is
            # protected ends with this very commit.
            draft.reads_rows = draft.follows_directly = self._feature.reader or self._removal.is_traced_in_files
            added = [CHECKPOINT_PROTECTION] if protects else []
            draft.definition = draft.definition.after(without_feature(draft.protocol, name, added), None)
            if protects:
                before = {**draft.metadata.configuration, properties.PROTECTED_BEFORE.name: str(snapshot.version + 1)}
                draft.definition = changed(draft.definition, configuration=before)
            return operation

        return alter(self._work.table, self._work.name, self._work.statement, downgrade)

    def truncate_history(self, prepared: bool) -> None:
        """Delete the versions that use the feature from the log.

        :raises HeadwaterError: ``DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD`` if the feature was in use until now;
            ``DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST`` if it was within the retention.
        """
        snapshot = self.add_checkpoint()
        if prepared:
            raise self._must_wait(
                "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD", self._wait(snapshot, snapshot.timestamp)
            )
        if self._truncates:
            truncate(snapshot, snapshot.definition.get(properties.TRUNCATED_HISTORY_RETENTION))
        else:
            clean_up(snapshot)
        listing = list_log(snapshot.table_path, snapshot.store)
        used = _last_use(self._removal, snapshot, listing)
        if used is not None:
            raise self._must_wait(
                "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST",
                self._wait(snapshot, _first_checkpoint(listing, snapshot, used + 1)),
                version=used,
            )

    def truncate_protected(self) -> None:
        """Delete the versions that are protected from the log.

        :raises HeadwaterError: ``DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD``.
        """
        snapshot = self._work.snapshot()
        if self._removal.trace(snapshot) is None:
            return
        snapshot = self.add_checkpoint()
        truncate(snapshot, snapshot.definition.get(properties.TRUNCATED_HISTORY_RETENTION))
        if self._removal.trace(snapshot) is not None:
            listing, version = list_log(snapshot.table_path, snapshot.store), protected_before(snapshot)
            raise self._must_wait(
                "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD",
                self._wait(snapshot, _first_checkpoint(listing, snapshot, version)),
                version=version,
            )

    def _wait(self, snapshot: Snapshot, since: int) -> _Wait:
        """The wait until a version that was committed at a time is the oldest that must be kept."""
        retention = properties.TRUNCATED_HISTORY_RETENTION if self._truncates else properties.LOG_RETENTION
        if not self._truncates:
            since = -(-since // _DAY) * _DAY  # that retention begins at midnight
        until = since + snapshot.definition.get(retention)
        return _Wait(retention.name, snapshot.definition.text(retention) or "", until)

    def _must_wait(self, condition: str, wait: _Wait, **parameters: object) -> HeadwaterError:
        return HeadwaterError(
            condition,
            {
                "feature": self._feature.name,
                "tableName": self._work.name,
                "retentionProperty": wait.property,
                "retention": wait.retention,
                "until": format_timestamp(wait.until),
                "ending": " TRUNCATE HISTORY" if self._truncates else "",
                **parameters,
            },
        )


def _last_use(removal: Removal, snapshot: Snapshot, listing: LogListing) -> int | None:
    """The newest version, up to a snapshot's, whose commit or checkpoint uses the feature; None for none."""
    found = [version for version, uses in _history(snapshot, listing) if removal.used_by(uses)]
    last = max(found, default=-1)
    newer = (c.version for c in listing.checkpoints if c.version > last and removal.in_checkpoint(c, snapshot.store))
    found += islice(newer, 1)  # the newest is the first of them
    return max(found, default=None)


def _history(snapshot: Snapshot, listing: LogListing) -> Iterator[tuple[int, Uses]]:
    """All that the log has of the versions up to a snapshot: the oldest that can be rebuilt, and all commits."""
    store, path = snapshot.store, snapshot.table_path
    if listing.earliest is not None and 0 not in listing.commits:
        yield listing.earliest, Uses.of_version(load_snapshot(path, store, listing.earliest))
    versions = sorted(version for version in listing.commits if version <= snapshot.version)
    for start in range(0, len(versions), _READ_AT_ONCE):
        some = versions[start : start + _READ_AT_ONCE]
        files = [listing.commits[version].path for version in some]
        for version, file, content in zip(some, files, store.read_many(files), strict=True):
            yield version, Uses.of_commit(parse_actions(content, file))


def _first_checkpoint(listing: LogListing, snapshot: Snapshot, version: int) -> int:
    """When the first version with a checkpoint, from a version on, was committed."""
    versions = [found.version for found in listing.checkpoints if found.version >= version]
    times = CommitTimes(listing, snapshot.metadata, snapshot.store, snapshot.version)
    known = [found for found in versions if found in times.commits]
    return times.of(min(known)) if known else snapshot.timestamp
