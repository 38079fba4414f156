"""The MERGE that an upsert runs.

Owns its condition and its clauses: which events delete, replace or insert, and which lose. An event that is older than
the stored row changes nothing. Where nulls leave values as they are, an event also brings the values of earlier events
in its batch, except events that are older than the stored row or than a remembered deletion.
"""

from __future__ import annotations

from msgspec import structs

from headwater.bridge.messages.change import ChangeClause, ChangeRequest
from headwater.bridge.statement import Statement
from headwater.protocol.columns import format_name
from headwater.sql.composing import (
    NULL,
    Case,
    Expression,
    Field,
    Merge,
    MergeClause,
    Named,
    Not,
    Relation,
    Resolved,
    Rows,
    call,
    equal,
    every,
    infix,
    is_not_null,
)
from headwater.statements.upserts.events import Events


def compose(
    events: Events, target: int, source: Rows, statement: Statement, *, has_outdated: bool, evolves: bool
) -> Merge:
    """The MERGE of prepared events into a table.

    :param target: the number of the table's plan.
    :param has_outdated: whether the events have the column :attr:`Events.outdated_name`; those are not inserted.
    :param evolves: whether the table gets the columns that only the events have.
    """
    upsert = events.upsert
    table, event = events.names.of("target"), events.names.of("event")

    def mine(name: str) -> Expression:
        return Field((table, name))

    def its(name: str) -> Expression:
        return Field((event, name))

    on = every(*(equal(mine(key.name), its(key.name)) for key in events.keys))
    assert on is not None
    is_current = stored = None
    if upsert.sequence is not None:
        stored = Resolved(statement.place_qualified(upsert.sequence, table))
        is_current = _counts(its(events.sequence_name), stored)
    deletes = its(events.deletes_name)
    keys = {key.name.lower() for key in events.keys}
    kept = {*keys, *(name.lower() for name in events.references)}
    given_at = {column.name: its(events.given_at_name(i)) for i, column in events.folded_columns}

    def updating(name: str) -> Expression:
        if name in given_at and stored is not None:
            deleted = its(events.deleted_before_name)
            return Case(((_counts(given_at[name], stored), its(name)), (_counts(deleted, stored), NULL)), mine(name))
        if upsert.ignores_nulls and name.lower() not in kept:
            return call("coalesce", its(name), mine(name))
        return its(name)

    def inserting(name: str) -> Expression:
        if name in given_at and has_outdated:
            return Case(((infix("<", given_at[name], its(events.deleted_at_name)), NULL),), its(name))
        return its(name)

    inserted = tuple((column.name, inserting(column.name)) for column in events.schema)
    updated = tuple((column.name, updating(column.name)) for column in events.schema if column.name.lower() not in keys)
    clauses = []
    if upsert.deletes is not None:
        clauses.append(MergeClause(True, every(deletes, is_current)))
    if updated:
        clauses.append(MergeClause(True, is_current, updated))
    is_inserted = [] if upsert.deletes is None else [Not(deletes)]
    if has_outdated:
        is_inserted.append(Not(its(events.outdated_name)))
    clauses.append(MergeClause(False, every(*is_inserted), inserted))
    return Merge(Named(Relation(target), table), Named(source, event), on, tuple(clauses), evolves)


def _counts(at: Expression, stored: Expression) -> Expression:
    """Whether what happened at a sequence, if anything did, is no older than a stored row: one without a sequence is
    older than any event."""
    return call("coalesce", infix(">=", at, stored), is_not_null(at))


def described(change: ChangeRequest, events: Events, name: str | None) -> ChangeRequest:
    """A resolved MERGE with what people know it by: the table's name, the keys, the options' own expressions.

    :param name: the table's name in the catalog; None if it is only a path.
    """
    keys = [format_name((key.name,)) for key in events.keys]
    condition = " AND ".join(f"target.{key} = event.{key}" for key in keys)
    sequence = events.upsert.sequence
    is_current = None if sequence is None else f"event.({sequence}) >= target.({sequence})"

    def clause(each: ChangeClause) -> ChangeClause:
        texts = []
        if each.kind == "delete":
            texts.append(f"({events.upsert.deletes})")
        if each.kind == "insert" and events.upsert.deletes is not None:
            texts.append(f"NOT ({events.upsert.deletes})")
        if each.kind != "insert" and is_current is not None:
            texts.append(is_current)
        return structs.replace(each, condition_text=" AND ".join(texts) if texts else None)

    return structs.replace(
        change,
        name=change.name if name is None else name,
        condition_text=condition,
        matched=[clause(each) for each in change.matched],
        not_matched=[clause(each) for each in change.not_matched],
    )
