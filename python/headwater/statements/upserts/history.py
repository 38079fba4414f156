"""Upserts that keep the history of each key: one row per event, from its sequence to the sequence of the next event.

Owns the query that finds where rows end, and the MERGE that stores them. Of a key, every sequence at which something
happened is a *bound*: the starts and the ends of the stored rows, the events of the batch, the deletions that the
companion remembers. A row ends at the least bound after its start. Bounds are never lost: the end of a row that a late
event shortens is the end of the event's row, and a row that a deletion removes leaves the deletion behind. So the table
is the same in whatever order, in whatever batches and however often the events come.

The query reads the stored rows of the batch's keys, in the version of the table that the MERGE is based on. The MERGE's
source has a row for each event, those too that change nothing: its keys are all that the result depends on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import structs

from headwater.bridge.messages.change import ChangeClause, ChangeRequest, Conjunct
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import as_value, format_name, quote
from headwater.protocol.types import StructField, StructType
from headwater.pruning import prune_all
from headwater.sql.composing import (
    FALSE,
    NULL,
    STAR,
    TRUE,
    Alias,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    IsNull,
    Merge,
    MergeClause,
    Named,
    Not,
    Number,
    Over,
    Query,
    Relation,
    Rows,
    UnionAll,
    call,
    equal,
    every,
    infix,
    is_not_null,
    select,
)
from headwater.statements.dml.indexed_keys import indexes_of_keys, rows_of_keys
from headwater.statements.dml.merge import small_target_bytes
from headwater.statements.dml.request import Key
from headwater.statements.dml.scan import total_bytes
from headwater.statements.dml.source_keys import read_source_keys, usable
from headwater.statements.files.file_lists import relation_over
from headwater.statements.upserts.events import Events, compared, of_same_keys
from headwater.statements.upserts.history_columns import END, START
from headwater.transaction.keyed import comparable


class _Names:
    """Names of the columns of a query that finds where rows end.

    ``at``: a bound; ``deletes``: whether the event there deletes its key, null where the batch has none; ``stored``:
    true where a stored row starts, which ends at ``stored_end``; ``end``: the next bound, which is ``following`` or the
    end of the stored row that goes on there, ``latest_end``; ``previous_end``: that of the bound before; ``lives``: how
    many deletions of the key came before; ``closed``: the greatest end of the stored rows that started up to here;
    ``goes_on``: true where one of these has no end.
    """

    def __init__(self, events: Events) -> None:
        self._names = events.names
        self.at, self.deletes, self.end = events.sequence_name, events.deletes_name, events.names.of("event_end")
        self.stored, self.stored_end = events.names.of("is_stored"), events.names.of("stored_end")
        self.following, self.latest_end = events.names.of("next_bound"), events.names.of("latest_end")
        self.previous_end, self.lives = events.names.of("previous_end"), events.names.of("deletions_before")
        self.closed, self.goes_on = events.names.of("closed_end"), events.names.of("goes_on")

    def given(self, position: int) -> str:
        """The value that an event has for the column at a position of its rows."""
        return self._names.of(f"given_{position}")

    def known(self, position: int) -> str:
        """The value that a stored row has for it."""
        return self._names.of(f"known_{position}")


# -- Where rows end ----------------------------------------------------------------------------------------------------


def changed_rows(
    events: Events, prepared: Query, remembered: Query | None, snapshot: Snapshot, statement: Statement
) -> Query:
    """What the MERGE stores (:func:`with_ends`), for a version of the table.

    :param remembered: deletions before this batch, keys and sequence under the events' names.
    """
    stored = starts_and_ends(events, _stored_rows(events, prepared, snapshot, statement), snapshot.schema)
    return with_ends(
        events,
        prepared,
        of_same_keys(stored, events, prepared),
        None if remembered is None else of_same_keys(remembered, events, prepared),
        snapshot.schema,
    )


def _stored_rows(events: Events, prepared: Query, snapshot: Snapshot, statement: Statement) -> Rows:
    """The stored rows of the files that may have the events' keys: of all files where these are small, or where the
    events are not computed yet, whose keys are not cheap to read.
    """
    files, only = snapshot.files, None
    keys = [
        Key(key.name, statement.place(quote((key.name,))), json.dumps(key.type.to_json()))
        for key in events.keys
        if comparable(key)
    ]
    is_large = total_bytes(files) > small_target_bytes(statement)
    if isinstance(prepared, Relation) and is_large and usable(keys):
        statement.step("read the source's keys")
        asked = indexes_of_keys(statement, snapshot, keys)
        found = read_source_keys(statement, prepared.number, usable(keys), asked)
        left = prune_all(snapshot, found.predicates)
        indexed = rows_of_keys(statement, snapshot, prepared.number, asked, found, left)
        files = files.filter(left if indexed is None else indexed.files)
        only = None if indexed is None else indexed.rows
    return relation_over(statement, snapshot, files, only=only)


def starts_and_ends(events: Events, rows: Rows, table: StructType) -> Query:
    """Keys, start and end of stored rows; if nulls keep previous values, those values as well."""
    names = _Names(events)
    return select(
        *(Column(key.name) for key in events.keys),
        Alias(Column(START), names.at),
        Alias(Column(END), names.stored_end),
        *(
            Alias(Column(column.name), names.known(i))
            for i, column in _carried(events)
            if table.find(column.name) is not None
        ),
        rows=rows,
        where=is_not_null(Column(START)),
    )


def with_ends(
    events: Events, prepared: Rows, stored: Query | None, remembered: Query | None, table: StructType | None
) -> Query:
    """What the MERGE stores: the events, and the stored rows that end elsewhere now, each with its end.

    Such a stored row has keys, start and end, and null for whether it deletes.

    :param prepared: the events of the batch, one for each key and sequence.
    :param stored: :func:`starts_and_ends` of all stored rows with the keys of events.
    :param remembered: keys and sequence of the deletions of these keys before this batch.
    :param table: the table's columns; None if there is no table.
    """
    names, columns = _Names(events), _values(events)
    keys, at = [Column(key.name) for key in events.keys], Column(names.at)
    carried = [] if table is None else [(i, c) for i, c in _carried(events) if table.find(c.name) is not None]
    bounds = [_events(events, prepared, dict(carried), table)]
    if stored is not None:
        known = {names.known(i): Column(names.known(i)) for i, _ in carried}
        ends: dict[str, Expression] = {names.stored: TRUE, names.stored_end: Column(names.stored_end), **known}
        bounds.append(_bounds(events, stored, carried, ends))
    if remembered is not None:
        bounds.append(_bounds(events, remembered, carried, {}))
    # Of one key and bound, at most one is an event and one a stored row.
    firsts = [names.stored_end, *(names.given(i) for i, _ in columns), *(names.known(i) for i, _ in carried)]
    rows: Query = select(
        *keys,
        at,
        *(Alias(call("max", Column(name)), name) for name in (names.deletes, names.stored)),
        *(Alias(call("first", Column(name), TRUE), name) for name in firsts),
        rows=UnionAll(tuple(bounds)),
        group_by=[*keys, at],
    )
    if remembered is not None:
        rows = _without_undone(events, rows)
    rows = _ending(events, rows)
    if events.upsert.ignores_nulls:
        rows = _filled(events, rows, {i for i, _ in carried})
    is_moved = every(Column(names.stored), Not(infix("<=>", Column(names.end), Column(names.stored_end))))
    assert is_moved is not None
    given = {column.name: Alias(Column(names.given(i)), column.name) for i, column in columns}
    return select(
        *(given.get(column.name, Column(column.name)) for column in events.schema),
        at,
        Column(names.deletes),
        Column(names.end),
        rows=rows,
        where=infix("OR", is_not_null(Column(names.deletes)), is_moved),
    )


def _values(events: Events) -> list[tuple[int, StructField]]:
    """The columns of the events that are no keys, by their positions."""
    keys = {key.name.lower() for key in events.keys}
    return [(i, column) for i, column in enumerate(events.schema) if column.name.lower() not in keys]


def _carried(events: Events) -> list[tuple[int, StructField]]:
    """Those whose nulls leave the value as it was."""
    return _values(events) if events.upsert.ignores_nulls else []


def _events(events: Events, prepared: Rows, carried: Mapping[int, StructField], table: StructType | None) -> Query:
    names = _Names(events)

    def given(i: int, column: StructField) -> Expression:
        stored = None if table is None or i not in carried else table.find(column.name)
        is_same = stored is None or as_value(stored.type) == as_value(column.type)
        return Column(column.name) if stored is None or is_same else Cast(Column(column.name), stored.type)

    return select(
        *(Column(key.name) for key in events.keys),
        Column(names.at),
        Column(names.deletes),
        Alias(NULL, names.stored),
        Alias(NULL, names.stored_end),
        *(Alias(given(i, column), names.given(i)) for i, column in _values(events)),
        *(Alias(NULL, names.known(i)) for i in carried),
        rows=prepared,
    )


def _bounds(
    events: Events,
    rows: Query,
    carried: Sequence[tuple[int, StructField]],
    values: Mapping[str, Expression],
) -> Query:
    """Bounds that are no events of the batch."""
    names = _Names(events)
    others = [names.stored, names.stored_end, *(names.given(i) for i, _ in _values(events))]
    others += [names.known(i) for i, _ in carried]
    return select(
        *(Column(key.name) for key in events.keys),
        Column(names.at),
        Alias(NULL, names.deletes),
        *(Alias(values.get(name, NULL), name) for name in others),
        rows=rows,
    )


def _without_undone(events: Events, rows: Query) -> Query:
    """The bounds but the remembered deletions within a stored row, which would have ended it: RESTORE or an overwrite
    has put the row there since, or the batch that deletes has not been stored, and brings the bound itself."""
    names, keys, at = _Names(events), tuple(Column(key.name) for key in events.keys), Column(_Names(events).at)
    is_open = every(Column(names.stored), IsNull(Column(names.stored_end)))
    assert is_open is not None
    # Stored rows do not overlap: of those up to here, only the last one goes on, or has no end.
    rows = select(
        STAR,
        Alias(Over(call("max", Column(names.stored_end)), keys, at), names.closed),
        Alias(Over(call("max", Case(((is_open, TRUE),))), keys, at), names.goes_on),
        rows=rows,
    )
    is_deletion = every(IsNull(Column(names.deletes)), IsNull(Column(names.stored)))
    assert is_deletion is not None
    goes_on = infix("OR", is_not_null(Column(names.goes_on)), infix(">", Column(names.closed), at))
    is_undone = every(is_deletion, call("coalesce", goes_on, FALSE))
    assert is_undone is not None
    return select(STAR, rows=rows, where=Not(is_undone))


def _ending(events: Events, rows: Query) -> Query:
    """The bounds with the next one: of the rows, or the end of the stored row that goes on there."""
    names, keys, at = _Names(events), tuple(Column(key.name) for key in events.keys), Column(_Names(events).at)
    following, latest = Column(names.following), Column(names.latest_end)
    rows = select(
        STAR,
        Alias(Over(call("lead", at), keys, at), names.following),
        # Stored rows do not overlap: of those up to here, the last one has the greatest end.
        Alias(Over(call("max", Column(names.stored_end)), keys, at), names.latest_end),
        rows=rows,
    )
    is_first = every(infix(">", latest, at), infix("OR", IsNull(following), infix("<", latest, following)))
    assert is_first is not None
    return select(STAR, Alias(Case(((is_first, latest),), following), names.end), rows=rows)


def _filled(events: Events, rows: Query, known: Collection[int]) -> Query:
    """The rows with the value before instead of nulls, back to the deletion before."""
    names, keys, at = _Names(events), [Column(key.name) for key in events.keys], Column(_Names(events).at)
    deletes, stored = Column(names.deletes), Column(names.stored)
    is_deletion = call("coalesce", deletes, IsNull(stored))
    rows = select(STAR, Alias(Over(call("lag", Column(names.end)), tuple(keys), at), names.previous_end), rows=rows)
    # What is before a bound ends there, or a deletion that is no longer remembered came in between.
    is_new_life = infix("OR", is_deletion, infix("<", Column(names.previous_end), at))
    counted = Case(((is_new_life, Number(1)),), Number(0))
    rows = select(STAR, Alias(Over(call("sum", counted), tuple(keys), at), names.lives), rows=rows)
    before = [*keys, Column(names.lives)]

    def filled(i: int) -> Expression:
        own: Expression = Column(names.given(i))
        if i in known:
            own = Case(((IsNull(deletes), Column(names.known(i))),), own)
        return Over(call("last_value", Case(((Not(is_deletion), own),)), TRUE), tuple(before), at)

    kept = [Column(name) for name in (names.at, names.deletes, names.end, names.stored, names.stored_end)]
    values = [Alias(filled(i), names.given(i)) for i, _ in _values(events)]
    return select(*keys, *kept, *values, rows=rows)


def of_new_table(events: Events, prepared: Rows) -> Query:
    """The rows of a table that the events create: their columns, start and end."""
    names = _Names(events)
    return select(
        *(Column(column.name) for column in events.schema),
        Alias(Column(names.at), START),
        Alias(Column(names.end), END),
        rows=with_ends(events, prepared, None, None, None),
        where=Not(Column(names.deletes)),
    )


# -- The MERGE ---------------------------------------------------------------------------------------------------------


def compose(events: Events, target: int, source: Query, table: StructType, *, evolves: bool) -> Merge:
    """The MERGE of the rows of :func:`with_ends` into a table.

    :param target: the number of the table's plan.
    :param table: the table's columns.
    :param evolves: whether the table gets the columns that only the events have.
    """
    names = _Names(events)
    target_name, event_name = events.names.of("target"), events.names.of("event")

    def mine(name: str) -> Expression:
        return Field((target_name, name))

    def its(name: str) -> Expression:
        return Field((event_name, name))

    on = every(*(equal(mine(key.name), its(key.name)) for key in events.keys), equal(mine(START), its(names.at)))
    assert on is not None
    values = [column for _, column in _values(events)]
    ends = (END, its(names.end))
    changes: list[Expression] = [Not(infix("<=>", mine(END), its(names.end)))]
    changes += [_differs(column, table.find(column.name), mine, its) for column in values]
    deletes = its(names.deletes)
    clauses = [MergeClause(True, IsNull(deletes), (ends,))]
    if events.upsert.deletes is not None:
        clauses.append(MergeClause(True, deletes))
    is_changed = infix("OR", *changes) if len(changes) > 1 else changes[0]
    clauses.append(MergeClause(True, is_changed, (*((c.name, its(c.name)) for c in values), ends)))
    inserted = (*((column.name, its(column.name)) for column in events.schema), (START, its(names.at)), ends)
    clauses.append(MergeClause(False, Not(deletes), inserted))
    return Merge(Named(Relation(target), target_name), Named(source, event_name), on, tuple(clauses), evolves)


def _differs(
    column: StructField, stored: StructField | None, mine: Callable[[str], Expression], its: Callable[[str], Expression]
) -> Expression:
    """Whether an event brings another value than the stored row has; true where that cannot be said."""
    if stored is None:
        return is_not_null(its(column.name))
    if as_value(stored.type) != as_value(column.type):
        return TRUE
    values = (compared(column.type, of(column.name)) for of in (mine, its))
    return Not(infix("<=>", *values))


def described(change: ChangeRequest, events: Events, name: str | None) -> ChangeRequest:
    """A resolved MERGE with what people know it by, and with what it depends on: all rows of its source's keys.

    :param name: the table's name in the catalog; None if it is only a path.
    """
    upsert = events.upsert
    keys = [format_name((key.name,)) for key in events.keys]
    condition = " AND ".join(
        [*(f"target.{key} = event.{key}" for key in keys), f"target.{START} = ({upsert.sequence})"]
    )
    deletion = f"({upsert.deletes})"

    def clause(each: ChangeClause) -> ChangeClause:
        text = deletion if each.kind == "delete" else None
        if each.kind == "insert" and upsert.deletes is not None:
            text = f"NOT {deletion}"
        return structs.replace(each, condition_text=text)

    def conjunct(each: Conjunct) -> Conjunct:
        is_start = each.key is not None and each.key.column.lower() == START.lower()
        return structs.replace(each, key=None) if is_start else each

    return structs.replace(
        change,
        name=change.name if name is None else name,
        condition_text=condition,
        conjuncts=[conjunct(each) for each in change.conjuncts],
        reads_target_elsewhere=False,
        matched=[clause(each) for each in change.matched],
        not_matched=[clause(each) for each in change.not_matched],
    )
