"""A changelog as events for other systems: Debezium JSON with keys, as a Kafka sink writes them.

Owns the form of the events and their order. A value is ``{"before": …, "after": …, "op": "c"|"u"|"d", "source": {…},
"ts_ms": …}``; ``ts_ms`` is when the change was committed, in milliseconds since the epoch. Values are as Flink's
``debezium-json`` format reads them: decimals as numbers, binary values in base64, dates as ``2024-02-29``, timestamps
in UTC as ``2024-02-29 12:00:00.000000Z``, those without a zone as the same without the ``Z``, structs and maps as
objects, whose names are a map's keys in these same forms; null fields are written. An update whose images are not
known as a pair, or that changes the key, is a ``d`` and a ``c``. Promise: the events of a key are in one task and in
the order in which they apply; so are all events where there are no keys. One shuffle brings them there.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.change_data.changelog import COMMIT_TIMESTAMP, COMMIT_VERSION, ORDINAL, ROW_KIND, RowKind
from headwater.protocol.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType
from headwater.sql.composing import (
    FALSE,
    NULL,
    STAR,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    In,
    IsNull,
    Lambda,
    Not,
    Over,
    Query,
    Select,
    Text,
    call,
    equal,
    infix,
    is_not_null,
    select,
    when,
)

_STRING = PrimitiveType("string")
_KEY, _VALUE = Column("key"), Column("value")
_VERSION, _ORDINAL = Column(COMMIT_VERSION), Column(ORDINAL)
#: The columns of the events.
COLUMNS = StructType((
    StructField("key", _STRING),
    StructField("value", _STRING),
    StructField(COMMIT_VERSION, PrimitiveType("long")),
    StructField(ORDINAL, PrimitiveType("long")),
))  # fmt: skip
_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS'Z'",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}


#: Types of a map's keys that Spark's JSON has in the form of its own memory, which may differ from row to row.
_KEYS_OF_OTHER_FORMS = {"date", "timestamp", "timestamp_ntz", "binary"}


def compose(
    changes: Query, columns: Sequence[StructField], keys: Sequence[str], *, table: str, tombstones: bool
) -> Query:
    """The events of a changelog.

    :param changes: its rows, in any order.
    :param columns: those of their columns that are the table's.
    :param keys: the columns of the key; without any, ``key`` is null.
    :param table: what the events give as their source.
    :param tombstones: whether each ``d`` is followed by its key with a null value; only with keys.
    """
    pairs = _with_pairs(_with_keys(changes, columns, keys))
    before, after = Column("before"), Column("after")
    images = Select(
        (
            _KEY,
            _VERSION,
            _ORDINAL,
            Column("millis"),
            Alias(when(_is(RowKind.UPDATE_BEFORE, RowKind.DELETE), Column("image")), before.name),
            Alias(
                Case(
                    ((_is(RowKind.UPDATE_AFTER, RowKind.INSERT), Column("image")), (_is_pair("next"), Column("next"))),
                ),
                after.name,
            ),
        ),
        pairs,
        where=Not(call("coalesce", _is_pair("previous"), FALSE)),
    )
    value = _json(
        before=before,
        after=after,
        source=_struct(
            connector=Text("headwater"),
            table=Text(table),
            ts_ms=Column("millis"),
            commit_version=_VERSION,
            ordinal=_ORDINAL,
        ),
        op=Case(((IsNull(before), Text("c")), (IsNull(after), Text("d"))), Text("u")),
        ts_ms=Column("millis"),
    )
    events = select(_KEY, Alias(value, "value"), _VERSION, _ORDINAL, Alias(IsNull(after), "is_deletion"), rows=images)
    sent: Expression = _VALUE
    if keys and tombstones:
        both = call("array", _VALUE, Cast(NULL, _STRING))
        sent = Alias(call("explode", when(Column("is_deletion"), both, call("array", _VALUE))), "value")
    parts = select(_KEY, sent, _VERSION, _ORDINAL, rows=events)
    return Select((STAR,), parts, sort_by=(_VERSION, _ORDINAL, IsNull(_VALUE)))


def _with_keys(changes: Query, columns: Sequence[StructField], keys: Sequence[str]) -> Query:
    """Rows as ``key``, ``image``, ``kind``, when they were committed, and ``pair``, which only the two images of a pair
    have in common.
    """
    values = {column.name: _with_texts_as_keys((column.name,), column.type) for column in columns}
    key = _json(**{name: values[name] for name in keys}) if keys else Cast(NULL, _STRING)
    image = _struct(**values)
    is_after = equal(Column(ROW_KIND), Text(RowKind.UPDATE_AFTER.text))
    return select(
        Alias(key, "key"),
        Alias(image, "image"),
        Alias(Column(ROW_KIND), "kind"),
        _VERSION,
        _ORDINAL,
        Alias(call("unix_millis", Column(COMMIT_TIMESTAMP)), "millis"),
        # The two images of a pair have ordinals that follow each other.
        Alias(infix("-", _ORDINAL, Cast(is_after, PrimitiveType("long"))), "pair"),
        rows=changes,
    )


def _with_pairs(rows: Query) -> Query:
    """The same with ``next``, the image of the next row of a key, and the places of this and the previous one."""

    def other(function: str, column: Column) -> Over:
        return Over(call(function, column), (_KEY,), (_VERSION, _ORDINAL))

    places = [
        Alias(other(function, column), f"{place}_{column.name}")
        for place, function in (("next", "lead"), ("previous", "lag"))
        for column in (_VERSION, Column("pair"))
    ]
    return select(STAR, Alias(other("lead", Column("image")), "next"), *places, rows=rows)


def _is_pair(place: str) -> Expression:
    """Whether a row and the one at a place are the two images of a pair; null if no row is at that place."""
    same = [equal(column, Column(f"{place}_{column.name}")) for column in (_VERSION, Column("pair"))]
    return infix("AND", *same)


def _is(*kinds: RowKind) -> Expression:
    return In(Column("kind"), tuple(Text(kind.text) for kind in kinds))


def _with_texts_as_keys(path: tuple[str, ...], kind: DataType, depth: int = 0) -> Expression:
    """The value at a path with texts as the keys of its maps, at any depth, where Spark's JSON would not have a key as
    it has a value.
    """
    value: Expression = Field(path)
    if not _has_keys_of_other_forms(kind):
        return value
    key, item = f"key_{depth}", f"value_{depth}"
    match kind:
        case StructType():
            fields = {f.name: _with_texts_as_keys((*path, f.name), f.type, depth) for f in kind}
            return when(is_not_null(value), _struct(**fields))
        case ArrayType():
            return call("transform", value, Lambda((item,), _with_texts_as_keys((item,), kind.element, depth + 1)))
        case MapType():
            if _has_keys_of_other_forms(kind.value):
                inner = _with_texts_as_keys((item,), kind.value, depth + 1)
                value = call("transform_values", value, Lambda((key, item), inner))
            if _is_of_another_form(kind.key):
                text = call("get_json_object", _json(key=Column(key)), Text("$.key"))
                value = call("transform_keys", value, Lambda((key, item), text))
    return value


def _has_keys_of_other_forms(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_has_keys_of_other_forms(field.type) for field in kind)
        case ArrayType():
            return _has_keys_of_other_forms(kind.element)
        case MapType():
            return _is_of_another_form(kind.key) or _has_keys_of_other_forms(kind.value)
    return False


def _is_of_another_form(key: DataType) -> bool:
    return key.name in _KEYS_OF_OTHER_FORMS if isinstance(key, PrimitiveType) else not isinstance(key, DecimalType)


def _struct(**members: Expression) -> Call:
    return call("named_struct", *(part for name, value in members.items() for part in (Text(name), value)))


def _json(**members: Expression) -> Call:
    options = call("map", *(Text(part) for option in _OPTIONS.items() for part in option))
    return call("to_json", _struct(**members), options)
