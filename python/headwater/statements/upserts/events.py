"""The rows of an upsert before the MERGE: the newest event of each key, and what is refused.

Owns the query that prepares the rows: keys and sequence as the table stores them, one row for each key; where the table
keeps the history of its keys, one for each key and sequence. What no upsert can take ends the job that reads the rows,
with the row's values: a null key, a null sequence, two rows of a key of which neither is the newer.

Where nulls leave values as they are, the one row of a key stands for all of its events in the batch (:func:`folded`):
the table is the one that they give one by one, in the order of their sequences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.protocol.column_metadata import DECLARED_TYPE
from headwater.protocol.columns import format_name
from headwater.protocol.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    SpatialType,
    StructField,
    StructType,
    parse_type,
    schema_string,
)
from headwater.schema import visible
from headwater.schema.checks import check_duplicates
from headwater.schema.generated import generated_columns
from headwater.schema.identity import identity_columns
from headwater.sql.composing import (
    FALSE,
    STAR,
    TRUE,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    IsNull,
    Join,
    Named,
    Number,
    Over,
    Query,
    Resolved,
    Rows,
    Text,
    call,
    equal,
    every,
    infix,
    is_not_null,
    select,
    when,
)
from headwater.statements.files.partitions import collated
from headwater.statements.files.rows import row_error
from headwater.statements.files.stored_values import as_stored, is_stored_as_null, is_stored_otherwise
from headwater.statements.internal_names import InternalNames
from headwater.statements.upserts.history_columns import check_table, stored_type
from headwater.statements.writes.upsert_options import KEYS, Upsert, find_column, find_keys, find_left_out

#: Types whose values have no order that Spark compares by.
_UNORDERED = ("void", "variant", "interval")
#: Types of one value that columns may have and keys may not.
_NO_KEYS = ("void", "variant", "interval")
#: The most columns of a row that an error shows.
_MOST_SHOWN = 30
#: The declared type of a text that is stored with blanks up to its length.
_CHARACTERS = re.compile(r"char\((\d+)\)", re.IGNORECASE)


@dataclass(frozen=True)
class Events:
    """The rows of an upsert as its options understand them.

    :param schema: the columns that are stored, of the types that the rows have.
    :param keys: the key columns, with the types and the metadata that the table has them with.
    :param sequence: the type of the sequence; None without one.
    :param as_stored: keys, and what the sequence is computed from, as the table has them, by names in lower case.
    :param references: the columns that the sequence is computed from.
    :param partitions: the names of the partition columns, in lower case.
    """

    upsert: Upsert
    schema: StructType
    keys: Sequence[StructField]
    sequence: DataType | None
    as_stored: Mapping[str, StructField]
    references: frozenset[str]
    names: InternalNames
    partitions: frozenset[str] = frozenset()

    @property
    def sequence_name(self) -> str:
        """The column of the prepared rows with the sequence of each."""
        return self.names.of("event_sequence")

    @property
    def deletes_name(self) -> str:
        """The column of the prepared rows that says whether each deletes its key."""
        return self.names.of("event_deletes")

    @property
    def deleted_before_name(self) -> str:
        """The column of folded rows with the sequence of the key's last deletion before the newest event."""
        return self.names.of("deleted_before")

    def given_at_name(self, position: int) -> str:
        """The column of folded rows with the sequence of the event that the value at a position of the rows is from."""
        return self.names.of(f"given_at_{position}")

    @property
    def folded_columns(self) -> Sequence[tuple[int, StructField]]:
        """The columns, by their positions, whose value is the last one that is not null."""
        if not self.upsert.ignores_nulls or self.sequence is None or self.upsert.keeps_history:
            return ()
        kept = {*(key.name.lower() for key in self.keys), *(name.lower() for name in self.references)}
        return [(i, column) for i, column in enumerate(self.schema) if column.name.lower() not in kept]

    @property
    def deleted_at_name(self) -> str:
        """The column, beside :attr:`outdated_name`, with the sequence of the deletion of the key that is remembered."""
        return self.names.of("deleted_at")

    @property
    def outdated_name(self) -> str:
        """The column that says whether an event is older than a deletion of its key that is remembered."""
        return self.names.of("event_outdated")


def events_of(
    upsert: Upsert, rows: StructType, table: StructType | None, statement: Statement, partitions: Iterable[str] = ()
) -> Events:
    """What the options mean for rows and a table.

    :param rows: the columns of the rows.
    :param partitions: the names of the table's partition columns.
    :param table: the columns that the table will have; None if the write creates it.
    :raises HeadwaterError: for keys, columns and expressions that cannot be; Spark's own error for an expression that
        does not resolve over the rows.
    """
    check_duplicates(rows, "READ_SCHEMA")
    left_out = find_left_out(upsert, rows)
    stored = StructType(tuple(column for column in rows if column.name not in left_out))
    find_keys(upsert, rows)
    if table is not None:
        find_keys(upsert, table)
        _check_not_computed(upsert, table)
    check_table(upsert, stored, table)
    seen = stored if table is None else table
    keys = [find_column(name, seen, KEYS) for name in upsert.keys]
    for key in keys:
        _check_key(key)
    given = schema_string(visible.for_reading(rows))
    if upsert.deletes is not None and statement.condition(upsert.deletes, given).columns is None:
        raise HeadwaterError(
            "HEADWATER_UPSERT_EXPRESSION_NOT_OF_ONE_ROW", {"option": "deleteWhen", "expression": upsert.deletes}
        )
    kind, references = None, frozenset[str]()
    if upsert.sequence is not None:
        kind, references = _sequence(upsert, upsert.sequence, rows, stored, table, statement)
    names = InternalNames.beside([*rows.names, *seen.names])
    as_stored = {name.lower(): find_column(name, seen, KEYS) for name in [*upsert.keys, *references]}
    folded = frozenset(name.lower() for name in partitions)
    return Events(upsert, stored, keys, kind, as_stored, references, names, folded)


def _check_not_computed(upsert: Upsert, table: StructType) -> None:
    wanted = {name.lower() for name in upsert.keys}
    for kind, columns in (("a generated", generated_columns(table)), ("an identity", identity_columns(table))):
        for column in columns:
            if column.name.lower() in wanted:
                raise HeadwaterError("HEADWATER_UPSERT_COMPUTED_KEY", {"column": column.name, "kind": kind})


def _check_key(key: StructField) -> None:
    kind = key.type
    is_plain = isinstance(kind, PrimitiveType) and kind.name not in _NO_KEYS or isinstance(kind, DecimalType)
    if not is_plain:
        raise HeadwaterError("HEADWATER_UPSERT_KEY_TYPE", {"column": key.name, "type": kind.sql()})


def _sequence(
    upsert: Upsert, text: str, rows: StructType, stored: StructType, table: StructType | None, statement: Statement
) -> tuple[DataType, frozenset[str]]:
    """The type of the sequence as the table's rows have it, and the columns that it is computed from: none where the
    table stores the sequence itself."""
    given = schema_string(visible.for_reading(rows))
    kind = parse_type(json.loads(statement.expression_type(text, given)))
    # The lines keep a comment at its end from taking more with it.
    found = statement.condition(f"(\n{text}\n) IS NOT NULL", given).columns
    if found is None:
        raise HeadwaterError("HEADWATER_UPSERT_EXPRESSION_NOT_OF_ONE_ROW", {"option": "sequenceBy", "expression": text})
    if not found:
        raise HeadwaterError("HEADWATER_UPSERT_SEQUENCE_OF_NO_COLUMN", {"expression": text})
    if not _is_ordered(kind):
        raise HeadwaterError("HEADWATER_UPSERT_SEQUENCE_TYPE", {"expression": text, "type": kind.sql()})
    if upsert.keeps_history:
        return stored_type(table, kind, text), frozenset()
    seen = stored if table is None else table
    missing = sorted(name for name in found if stored.find(name) is None or seen.find(name) is None)
    if missing:
        raise HeadwaterError(
            "HEADWATER_UPSERT_SEQUENCE_NOT_STORED", {"expression": text, "columns": ", ".join(missing)}
        )
    kind = parse_type(json.loads(statement.expression_type(text, schema_string(visible.for_reading(seen)))))
    if not _is_ordered(kind):
        raise HeadwaterError("HEADWATER_UPSERT_SEQUENCE_TYPE", {"expression": text, "type": kind.sql()})
    return kind, found


def _is_ordered(kind: DataType) -> bool:
    match kind:
        case StructType():
            return all(_is_ordered(field.type) for field in kind)
        case ArrayType():
            return _is_ordered(kind.element)
        case MapType() | SpatialType():
            return False
        case PrimitiveType():
            return kind.name not in _UNORDERED
    return True


def deletes_key(events: Events, statement: Statement) -> Expression:
    """Whether an event deletes its key, over the rows as they come."""
    if events.upsert.deletes is None:
        return FALSE
    return call("coalesce", Resolved(statement.place(events.upsert.deletes)), FALSE)


def prepare(events: Events, given: Rows, statement: Statement) -> Query:
    """The newest event of each key, or all of them for a history: the stored columns, whether the event deletes, and
    its sequence.

    :param given: the rows as they come.
    """
    upsert, keys = events.upsert, [Column(key.name) for key in events.keys]
    columns = [_as_stored(column, events.as_stored.get(column.name.lower())) for column in events.schema]
    added: list[Expression] = [Alias(deletes_key(events, statement), events.deletes_name)]
    if upsert.keeps_history:
        # What it is computed from need not be stored.
        added.append(sequence_of(events, statement))
    rows: Rows = select(*columns, *added, rows=given)
    if others := _partitions_beside_keys(events):
        # With ignoreNullUpdates, a value that is stored as null must keep the previous value, as a null does.
        values = [Alias(as_stored(Column(c.name)), c.name) if c in others else Column(c.name) for c in events.schema]
        rows = select(*values, *(Column(each.name) for each in added if isinstance(each, Alias)), rows=rows)
    rows = select(STAR, rows=rows, where=_no_null_key(events))
    if (stored := _no_key_stored_as_null(events)) is not None:
        rows = select(STAR, rows=rows, where=stored)
    if upsert.sequence is None:
        return _one_of_each(events, rows, keys)
    sequence = Column(events.sequence_name)
    if not upsert.keeps_history:
        rows = select(STAR, sequence_of(events, statement), rows=rows)
    null = row_error(
        "HEADWATER_UPSERT_NULL_SEQUENCE", {"expression": Text(upsert.sequence), "key": _shown_as_text(events.keys)}
    )
    rows = select(STAR, rows=rows, where=when(is_not_null(sequence), TRUE, null))
    if upsert.keeps_history or upsert.ignores_nulls:
        rows = _newest_of_each(events, rows, [*keys, sequence], sequence)
        return rows if upsert.keeps_history else folded(events, rows)
    return _newest_of_each(events, rows, keys, sequence)


def folded(events: Events, rows: Rows) -> Query:
    """The newest event of each key, with the last value that is not null of the key's events, back to a deletion
    before the newest one; the sequence of the event that each value is from; and the sequence of that deletion.

    Those sequences say what of it counts for a stored row: nothing that is older.

    :param rows: the events, one for each key and sequence.
    """
    names, sequence, deletes = events.names, Column(events.sequence_name), Column(events.deletes_name)
    place, deletion = names.of("event_place"), names.of("newer_deletion")
    keys = [names.of(f"key_{i}") for i, _ in enumerate(events.keys)]
    of_key = tuple(Column(name) for name in keys)

    def over(value: Call) -> Over:
        return Over(value, of_key, sequence, descends=True)

    named = (Alias(Column(key.name), name) for key, name in zip(events.keys, keys, strict=True))
    rows = select(STAR, *named, rows=rows)
    rows = select(STAR, Alias(over(call("row_number")), place), rows=rows)
    is_deletion = every(deletes, infix(">", Column(place), Number(1)))
    assert is_deletion is not None
    # Of those at or after an event, but for the newest.
    rows = select(STAR, Alias(over(call("max", Case(((is_deletion, sequence),)))), deletion), rows=rows)
    by_position = dict(events.folded_columns)
    columns: list[Expression] = []
    for i, column in enumerate(events.schema):
        value: Expression = Column(column.name)
        at: Expression = sequence
        if i in by_position:
            is_given = every(is_not_null(value), IsNull(Column(deletion)))
            assert is_given is not None
            at = Case(((is_given, sequence),))
            columns.append(Alias(call("max", at), events.given_at_name(i)))
        columns.append(Alias(call("max_by", value, at), column.name))
    return select(
        *columns,
        Alias(call("max_by", deletes, sequence), events.deletes_name),
        Alias(call("max", sequence), events.sequence_name),
        Alias(call("max", Column(deletion)), events.deleted_before_name),
        rows=rows,
        group_by=of_key,
    )


def sequence_of(events: Events, statement: Statement) -> Alias:
    """The sequence of an event, under its name."""
    assert events.upsert.sequence is not None
    assert events.sequence is not None
    value: Expression = Resolved(statement.place(events.upsert.sequence))
    return Alias(Cast(value, events.sequence) if events.upsert.keeps_history else value, events.sequence_name)


def _as_stored(column: StructField, stored: StructField | None) -> Expression:
    """A column of the rows; what is compared is as the table has it, where two values may be one."""
    value: Expression = Column(column.name)
    if stored is None:
        return value
    if stored.type != column.type:
        value = Cast(value, stored.type)
    declared = _CHARACTERS.fullmatch(str(stored.metadata.get(DECLARED_TYPE, "")))
    if declared is not None:
        length = Number(int(declared[1]))
        padded = call("rpad", value, length, Text(" "))
        value = when(infix("<", call("char_length", value), length), padded, value)
    value = collated(value, stored)
    return value if isinstance(value, Column) else Alias(value, column.name)


def _no_null_key(events: Events) -> Expression:
    holds = every(*(is_not_null(Column(key.name)) for key in events.keys))
    assert holds is not None
    name = Case(tuple((IsNull(Column(key.name)), Text(key.name)) for key in events.keys))
    error = row_error("HEADWATER_UPSERT_NULL_KEY", {"column": name, "row": _shown_as_text(events.schema.fields)})
    return when(holds, TRUE, error)


def _no_key_stored_as_null(events: Events) -> Expression | None:
    """Spark writes some values of a partition column as null; None if no key is such a column."""
    found = [
        (is_stored_as_null(Column(key.name)), Text(key.name))
        for key in events.keys
        if key.name.lower() in events.partitions and is_stored_otherwise(key)
    ]
    if not found:
        return None
    fill = {"column": Case(tuple(found)), "row": _shown_as_text(events.schema.fields)}
    error = row_error("HEADWATER_UPSERT_KEY_STORED_AS_NULL", fill)
    return Case(tuple((is_null, error) for is_null, _ in found), TRUE)


def _partitions_beside_keys(events: Events) -> list[StructField]:
    """The partition columns that are no keys, of which some values are stored as null."""
    wanted = events.partitions - {key.name.lower() for key in events.keys}
    return [column for column in events.schema if column.name.lower() in wanted and is_stored_otherwise(column)]


def _one_of_each(events: Events, rows: Rows, keys: Sequence[Expression]) -> Query:
    number = events.names.of("event_number")
    numbered = select(STAR, Alias(Over(call("row_number"), tuple(keys), keys[0]), number), rows=rows)
    error = row_error("HEADWATER_UPSERT_SEVERAL_ROWS_OF_KEY", {"key": _shown_as_text(events.keys)})
    return select(STAR, rows=numbered, where=when(equal(Column(number), Number(1)), TRUE, error))


def _newest_of_each(events: Events, rows: Rows, keys: Sequence[Expression], sequence: Expression) -> Query:
    rank, number, first = (events.names.of(word) for word in ("event_rank", "event_number", "event_first"))

    def over(function: str, *arguments: Expression) -> Over:
        return Over(call(function, *arguments), tuple(keys), sequence, descends=True)

    ranked = select(STAR, Alias(over("rank"), rank), rows=rows)
    newest = select(STAR, rows=ranked, where=equal(Column(rank), Number(1)))
    shown = [compared(column.type, Column(column.name)) for column in events.schema]
    values = [part for i, value in enumerate(shown) for part in (Text(f"c{i}"), value)]
    row = call("named_struct", *values, Text("deletes"), Column(events.deletes_name))
    numbered = select(STAR, Alias(over("row_number"), number), Alias(over("first_value", row), first), rows=newest)
    differing = row_error(
        "HEADWATER_UPSERT_EQUAL_SEQUENCES",
        {
            "key": _shown_as_text(events.keys),
            "sequence": call("coalesce", Cast(sequence, PrimitiveType("string")), Text("null")),
            "first": _first_as_text(events, first),
            "second": _shown_as_text(events.schema.fields),
        },
    )
    is_first = equal(Column(number), Number(1))
    # Rows of a key that are the same in all that is stored are one.
    is_repeated = infix("<=>", Column(first), row)
    return select(STAR, rows=numbered, where=Case(((is_first, TRUE), (is_repeated, FALSE)), differing))


def of_same_keys(rows: Query, events: Events, prepared: Rows) -> Query:
    """The rows that have the key of an event; the names of their keys are those of the events."""
    mine, its = (events.names.of(word) for word in ("row", "event"))
    matches = every(*(equal(Field((mine, key.name)), Field((its, key.name))) for key in events.keys))
    assert matches is not None
    keys = select(*(Column(key.name) for key in events.keys), rows=prepared)
    return select(STAR, rows=Join(Named(rows, mine), "LEFT SEMI", Named(keys, its), matches))


def compared(kind: DataType, value: Expression) -> Expression:
    """A value of a type as something that can be compared."""
    if _is_comparable(kind):
        return value
    if isinstance(kind, SpatialType):
        return call("st_asbinary", value)
    return Cast(value, PrimitiveType("string"))


def _is_comparable(kind: DataType) -> bool:
    match kind:
        case StructType():
            return all(_is_comparable(field.type) for field in kind)
        case ArrayType():
            return _is_comparable(kind.element)
        case MapType() | SpatialType():
            return False
        case PrimitiveType():
            return kind.name != "variant"
    return True


def _shown_as_text(columns: Sequence[StructField]) -> Expression:
    """``a = 1, b = x``, of a row's columns."""
    return _listed([(column, Column(column.name)) for column in columns])


def _first_as_text(events: Events, first: str) -> Expression:
    return _listed([(column, Field((first, f"c{i}"))) for i, column in enumerate(events.schema)])


def _listed(columns: Sequence[tuple[StructField, Expression]]) -> Expression:
    parts: list[Expression] = []
    for column, value in columns:
        if isinstance(column.type, SpatialType) or column.type == PrimitiveType("void"):
            continue
        if column.type == PrimitiveType("binary"):
            value = call("hex", value)
        separator = ", " if parts else ""
        text = call("coalesce", Cast(value, PrimitiveType("string")), Text("null"))
        parts += [Text(f"{separator}{format_name((column.name,))} = "), text]
        if len(parts) == 2 * _MOST_SHOWN:
            break
    return call("concat", *parts) if parts else Text("")
