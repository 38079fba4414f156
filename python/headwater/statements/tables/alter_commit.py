"""Running an ALTER: apply the changes to the newest version, check the rows, commit; again after a lost race.

Owns the attempts of every statement that changes a table's definition. Promises: one statement is one commit or none.
An ALTER that loses to data checks only the files that are new. One that loses to another ALTER is applied to the new
definition, and fails where both change the same thing to something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import DomainMetadata, Metadata
from headwater.protocol.columns import all_fields, format_name
from headwater.protocol.types import ArrayType, DataType, MapType, StructType, parse_schema
from headwater.statements.running.committing import commit, transaction
from headwater.statements.running.opening import open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.statements.tables.draft import Alteration, Draft
from headwater.statements.tables.existing_rows import check_existing_rows
from headwater.transaction import Transaction
from headwater.transaction.commit_info import Provenance


def alter(
    table: str,
    name: str | None,
    statement: Statement,
    alteration: Alteration,
    *,
    is_last: bool = True,
    discards: bool = True,
) -> CommitAnswer:
    """Change the definition of a table by one commit; no commit where the definition is as asked already.

    :param is_last: whether the statement is done with this commit; it must be possible to run again what comes before.
    :param discards: whether what a lost attempt has written is deleted; False if the next one uses it.
    :raises HeadwaterError: what the alteration raises; the last conflict, once ``spark.headwater.dml.retrySeconds``
        have passed; ``DELTA_METADATA_CHANGED`` if a winner changed the same thing; the error condition of a row
        check that a row violates.
    """
    attempts = _Attempts(table, name, statement, alteration, is_last)
    return run_again_after_losses(
        table,
        statement,
        attempts.run,
        lambda _: attempts.may_run_again,
        waits_for_others=False,
        discards=discards,
    )


class _Attempts:
    """The attempts of one statement: what the one before proved and changed counts for the next."""

    def __init__(
        self, table: str, name: str | None, statement: Statement, alteration: Alteration, is_last: bool
    ) -> None:
        self._table, self._name, self._statement, self._alteration = table, name, statement, alteration
        self._is_last = is_last
        self._first: Draft | None = None
        self._proven: Draft | None = None
        self._lost: HeadwaterError | None = None
        self.may_run_again = True

    def run(self) -> CommitAnswer:
        statement = self._statement
        snapshot = open_snapshot(self._table, statement)
        txn = transaction(self._table, statement, snapshot)
        draft = Draft.of(snapshot, statement, self._name or snapshot.table_path)
        operation = self._alteration(draft)
        if not draft.changes_anything:
            return CommitAnswer(version=snapshot.version)
        self._check_same_things(draft)
        if draft.row_checks:
            check_existing_rows(draft.row_checks, snapshot, statement, self._still_proven(draft))
            self._proven = draft
        _fill(txn, draft)
        try:
            return commit(txn, statement, Provenance(*operation, draft.metrics), is_last=self._is_last)
        except HeadwaterError as error:
            self._lost = error
            raise

    def _still_proven(self, draft: Draft) -> Snapshot | None:
        """The version whose rows met these very checks."""
        proven = self._proven
        if proven is None or proven.row_checks != draft.row_checks or proven.snapshot.schema != draft.snapshot.schema:
            return None
        return proven.snapshot

    def _check_same_things(self, draft: Draft) -> None:
        """Refuse to undo what a winner did to the very thing that this statement changes."""
        if self._first is None:
            self._first = draft
            return
        was = _things(self._first.snapshot.metadata, self._first.snapshot.domain_metadata)
        wanted = _changed(was, _draft_things(self._first))
        theirs = _changed(was, _things(draft.snapshot.metadata, draft.snapshot.domain_metadata))
        both = sorted(thing for thing in wanted.keys() & theirs.keys() if wanted[thing] != theirs[thing])
        if both:
            assert self._lost is not None
            found = self._lost.parameters
            self.may_run_again = False
            raise HeadwaterError("DELTA_METADATA_CHANGED", {**found, "changes": f"it also changed {', '.join(both)}"})


def _draft_things(draft: Draft) -> dict[str, Any]:
    domains = {**draft.snapshot.domain_metadata, **{domain.domain: domain for domain in draft.domains}}
    return _things(draft.metadata, domains)


def _things(metadata: Metadata, domains: Mapping[str, DomainMetadata]) -> dict[str, Any]:
    """What a definition consists of, each thing by a name that people know."""
    things: dict[str, Any] = {f"property {key}": value for key, value in metadata.configuration.items()}
    # Both sides count on from the same number; the loser counts again.
    things.pop("property delta.columnMapping.maxColumnId", None)
    # Each writer that enables row tracking draws names; the winner's count.
    for drawn in (properties.ROW_ID_COLUMN.name, properties.ROW_COMMIT_VERSION_COLUMN.name):
        things.pop(f"property {drawn}", None)
    # Each statement that drops a feature counts from its own version; the later one is the higher.
    things.pop(f"property {properties.PROTECTED_BEFORE.name}", None)
    things["comment"] = metadata.description
    things |= {f"domain {name}": domain.configuration for name, domain in domains.items() if not domain.removed}
    for path, field in all_fields(parse_schema(metadata.schema_string)):
        column = f"column {format_name(path)}"
        things[column] = (_outline(field.type), field.nullable)
        things |= {f"{column} ({key})": value for key, value in field.metadata.items()}
    return things


def _outline(kind: DataType) -> str:
    """A type without the fields of its structs, which are things of their own."""
    match kind:
        case StructType():
            return "struct"
        case ArrayType():
            return f"array of {_outline(kind.element)} {kind.contains_null}"
        case MapType():
            return f"map of {_outline(kind.key)} to {_outline(kind.value)} {kind.value_contains_null}"
    return kind.sql()


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What is different, with its value after; None for what is gone."""
    return {thing: after.get(thing) for thing in before.keys() | after.keys() if before.get(thing) != after.get(thing)}


def _fill(txn: Transaction, draft: Draft) -> None:
    """Put what a draft changes into a transaction."""
    if draft.row_checks or draft.reads_rows:
        txn.read_whole_table()
    if draft.follows_directly:
        txn.follow_directly()
    txn.redefine(draft.definition)
    for action in [*draft.domains, *draft.more_actions]:
        txn.add_action(action)
