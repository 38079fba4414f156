"""Keys: PRIMARY KEY and FOREIGN KEY, which inform; a primary key may be enforced.

Owns the table properties ``headwater.key.<name>``: one for each key, JSON. The protocol has no keys, and other writers
keep properties that they do not know. A key has the names of its columns and their physical names, so it follows a
rename, even one by a writer that does not know keys. What keeps an enforced key unique is
:mod:`headwater.statements.files.enforced_keys`. Promise: a key whose columns are gone, a primary key with a column
that may be null, a second primary key, and a property that cannot be read, do not count; they keep nobody from using
the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.protocol.columns import format_name, sql_name
from headwater.protocol.properties import KEY_PREFIX
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructField, StructType
from headwater.schema.constraints import find_constraint

PRIMARY, FOREIGN = "primary_key", "foreign_key"
WORDS = {PRIMARY: "PRIMARY KEY", FOREIGN: "FOREIGN KEY"}


class Key(NamedTuple):
    """A key over top-level columns.

    :param columns: their logical names.
    :param rely: whether an optimizer may rely on it.
    :param enforced: whether no statement of ours may write a second row for a primary key.
    :param references: the parts of the full name of the table that a foreign key refers to; ``referenced``: the columns
        of its primary key, in the order of ``columns``.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    rely: bool = False
    enforced: bool = False
    references: tuple[str, ...] = ()
    referenced: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        """What it says, in SQL, without its name."""
        said = f"{WORDS[self.kind]} ({_listed(self.columns)})"
        if self.kind == FOREIGN:
            said += f" REFERENCES {'.'.join(map(sql_name, self.references))} ({_listed(self.referenced)})"
        return f"{said} {'' if self.enforced else 'NOT '}ENFORCED{' RELY' if self.rely else ''}"

    def refers_to(self, table: Sequence[str]) -> bool:
        """Whether it is a foreign key to a table, by its full name."""
        return self.kind == FOREIGN and is_same_name(self.references, table)


def is_same_name(name: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two full names are the same."""
    return [part.lower() for part in name] == [part.lower() for part in other]


def keys(definition: TableDefinition) -> list[Key]:
    """The keys of a table that count, the primary key first, then by name."""
    found: list[Key] = []
    for _, stored in _stored(definition.metadata.configuration):
        columns = _columns(stored, definition.schema, by_physical=definition.maps_columns)
        is_primary = stored.key.kind == PRIMARY
        if is_primary and (primary_key(found) or any(column.nullable for column in columns or ())):
            continue
        if columns is not None:
            found.append(stored.key._replace(columns=tuple(column.name for column in columns)))
    return sorted(found, key=lambda key: (key.kind != PRIMARY, key.name.lower()))


def primary_key(known: Sequence[Key]) -> Key | None:
    """The primary key among keys."""
    return next((key for key in known if key.kind == PRIMARY), None)


def enforced_key(definition: TableDefinition) -> Key | None:
    """The primary key of a table if it is enforced."""
    key = primary_key(keys(definition))
    return key if key is not None and key.enforced else None


def says_enforced(text: str) -> bool:
    """Whether the value of a key's property is that of an enforced key."""
    stored = _read(text)
    return stored is not None and stored.key.enforced


def find_key(definition: TableDefinition, name: str) -> Key | None:
    """A key by its name, compared ignoring case."""
    return next((key for key in keys(definition) if key.name.lower() == name.lower()), None)


def with_key(definition: TableDefinition, key: Key) -> dict[str, str]:
    """The properties with one more key. A property of that name that does not count is overwritten.

    :raises HeadwaterError: those of :func:`check_key`.
    """
    check_key(definition.schema, definition.metadata.configuration, keys(definition), key)
    fields = [definition.schema.find(name) for name in key.columns]
    return {**definition.metadata.configuration, **_property(key, [field for field in fields if field is not None])}


def declared(schema: StructType, configuration: Mapping[str, str], asked: Sequence[Key]) -> dict[str, str]:
    """The properties of a new table with its keys; :func:`bound` adds the physical names.

    :raises HeadwaterError: those of :func:`check_key`.
    """
    made = dict(configuration)
    for number, key in enumerate(asked):
        check_key(schema, made, asked[:number], key)
        made |= _property(key, ())
    return made


def check_key(schema: StructType, configuration: Mapping[str, str], known: Sequence[Key], key: Key) -> None:
    """That a table can have one more key.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_ALREADY_EXISTS``, ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``,
        ``HEADWATER_INVALID_KEY``.
    """
    if key.kind == PRIMARY and (other := primary_key(known)) is not None:
        raise invalid(
            key, f"The table has the primary key {other.name} ({_listed(other.columns)}). Drop that one first."
        )
    check_name(configuration, known, key.name)
    for name in key.columns:
        if schema.find(name) is None:
            raise HeadwaterError(
                "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", {"columnName": format_name((name,)), "schema": schema.sql()}
            )
    if len({name.lower() for name in key.columns}) < len(key.columns):
        raise invalid(key, "It names a column twice. Name each column once.")
    if key.kind != PRIMARY:
        return
    nullable = [name for name in key.columns if (field := schema.find(name)) is not None and field.nullable]
    if nullable:
        columns = ", ".join(map(sql_name, nullable))
        raise invalid(
            key,
            f"These columns may be null: {columns}. Use ALTER TABLE … ALTER COLUMN {sql_name(nullable[0])} SET NOT "
            "NULL first.",
        )


def check_name(configuration: Mapping[str, str], known: Sequence[Key], name: str) -> None:
    """That no constraint has a name.

    :raises HeadwaterError: ``DELTA_CONSTRAINT_ALREADY_EXISTS``.
    """
    found = find_constraint(configuration, name)
    old = found[1] if found is not None else next((key.sql for key in known if key.name.lower() == name.lower()), None)
    if old is not None:
        raise HeadwaterError("DELTA_CONSTRAINT_ALREADY_EXISTS", {"constraintName": name, "oldConstraint": old})


def without_keys(configuration: Mapping[str, str], names: Sequence[str] | None = None) -> dict[str, str]:
    """The properties without the keys of these names; None for all."""
    gone = None if names is None else {KEY_PREFIX + name.lower() for name in names}
    return {
        key: value
        for key, value in configuration.items()
        if not (key.lower().startswith(KEY_PREFIX) if gone is None else key.lower() in gone)
    }


def with_not_null(schema: StructType, asked: Sequence[Key]) -> StructType:
    """The columns with those of a primary key NOT NULL."""
    primary = primary_key(asked)
    named = set() if primary is None else {name.lower() for name in primary.columns}
    return StructType(tuple(replace(f, nullable=f.nullable and f.name.lower() not in named) for f in schema))


def bound(configuration: Mapping[str, str], schema: StructType, *, by_physical: bool) -> dict[str, str]:
    """The properties with the names that the columns of each key have now.

    :param by_physical: whether the physical names find them; by their names otherwise.
    """
    made = dict(configuration)
    for _, stored in _stored(configuration):
        columns = _columns(stored, schema, by_physical=by_physical)
        if columns is not None:
            made |= _property(stored.key, columns)
    return made


def copied(definition: TableDefinition, configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties for a table with the same columns under physical names of its own, which :func:`bound` adds."""
    made = without_keys(configuration)
    for key in keys(definition):
        made |= _property(key, ())
    return made


def _property(key: Key, columns: Sequence[StructField]) -> dict[str, str]:
    names = [column.name for column in columns] or list(key.columns)
    said: dict[str, Any] = {"name": key.name, "kind": key.kind, "columns": names}
    if columns:
        said["physical"] = [column.physical_name for column in columns]
    if key.kind == FOREIGN:
        said |= {"references": list(key.references), "referenced": list(key.referenced)}
    if key.rely:
        said["rely"] = True
    if key.enforced:
        said["enforced"] = True
    return {KEY_PREFIX + key.name.lower(): json.dumps(said, ensure_ascii=False)}


class _Stored(NamedTuple):
    key: Key
    physical: tuple[str, ...]


def _stored(configuration: Mapping[str, str]) -> list[tuple[str, _Stored]]:
    read = [(name, _read(text)) for name, text in sorted(configuration.items()) if name.startswith(KEY_PREFIX)]
    return [(name, each) for name, each in read if each is not None and name == KEY_PREFIX + each.key.name.lower()]


def _read(text: str) -> _Stored | None:
    """A property as a key; None if it is none of ours."""
    try:
        said = json.loads(text)
        kind, columns = said["kind"], _texts(said, "columns")
        references, referenced = _texts(said, "references"), _texts(said, "referenced")
        rely, enforced = said.get("rely") is True, kind == PRIMARY and said.get("enforced") is True
        key = Key(_text(said["name"]), kind, columns, rely, enforced, references, referenced)
        physical = _texts(said, "physical") or columns
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    fits = len(referenced) == len(columns) and references if kind == FOREIGN else kind == PRIMARY
    is_twice = len({*map(str.lower, columns)}) < len(columns) or len({*physical}) < len(physical)
    return _Stored(key, physical) if fits and columns and not is_twice and len(physical) == len(columns) else None


def _texts(said: Mapping[str, Any], member: str) -> tuple[str, ...]:
    values = said.get(member, [])
    if not isinstance(values, list):
        raise TypeError(values)
    return tuple(map(_text, values))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _columns(stored: _Stored, schema: StructType, *, by_physical: bool) -> list[StructField] | None:
    """The columns of a key; None if one is gone."""
    if by_physical:
        known = {field.physical_name: field for field in schema}
        found = [known.get(name) for name in stored.physical]
    else:
        found = [schema.find(name) for name in stored.key.columns]
    columns = [column for column in found if column is not None]
    return columns if len(columns) == len(found) else None


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(sql_name, columns))


def invalid(key: Key, reason: str) -> HeadwaterError:
    """The error for a key that a table cannot have."""
    return HeadwaterError("HEADWATER_INVALID_KEY", {"constraintName": key.name, "key": key.sql, "reason": reason})
