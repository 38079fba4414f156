"""Which indexes a table has.

Owns the way from the table properties ``headwater.index.<name>.columns`` (:mod:`headwater.protocol.index_properties`)
to indexes: one for each property, a list of column names separated by commas. The protocol has no such property, and
other writers keep properties that they do not know. Promise: an index whose columns are gone or have types that cannot
be indexed does not count; it keeps nobody from using the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headwater.basics.errors import HeadwaterError
from headwater.key_index.hashing import kind_of
from headwater.protocol.columns import format_name, parse_name_list
from headwater.protocol.index_properties import index_name, property_of
from headwater.protocol.properties import INDEX_PREFIX
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructField

#: Names become directories.
_NAME = re.compile(r"[a-z0-9_][a-z0-9_-]{0,63}")
#: The most columns of an index.
MOST_COLUMNS = 16
#: The most indexes of a table: each makes every build read the files once more.
MOST_INDEXES = 8


class KeyIndex(NamedTuple):
    """An index that counts.

    :param name: in lower case.
    :param columns: its columns, in their order.
    """

    name: str
    columns: tuple[StructField, ...]

    @property
    def kinds(self) -> list[str]:
        """How the values of each column are hashed."""
        return [kind for column in self.columns if (kind := kind_of(column)) is not None]

    @property
    def physical_names(self) -> list[str]:
        """How files name the columns."""
        return [column.physical_name for column in self.columns]


class Declared(NamedTuple):
    """An index as the properties have it.

    :param columns: the text of its columns.
    :param key_index: None where it does not count.
    :param problem: why it does not count, a sentence; empty if it does.
    """

    name: str
    columns: str
    key_index: KeyIndex | None
    problem: str = ""


def is_name(text: str) -> bool:
    """Whether an index can have this name, in lower case."""
    return _NAME.fullmatch(text) is not None


def indexes(definition: TableDefinition) -> list[KeyIndex]:
    """The indexes of a table that count, by name."""
    return [each.key_index for each in declared(definition) if each.key_index is not None]


def index_over(definition: TableDefinition, columns: Iterable[str]) -> KeyIndex | None:
    """The index of a table that counts and is over the most of some columns, and over no other.

    :param columns: logical names.
    :returns: None if the table has no such index.
    """
    given = set(columns)
    over = [each for each in indexes(definition) if given.issuperset(column.name for column in each.columns)]
    return max(over, key=lambda each: len(each.columns), default=None)


def declared(definition: TableDefinition) -> list[Declared]:
    """All indexes of a table, by name."""
    found = []
    for key, text in sorted(definition.metadata.configuration.items()):
        name = index_name(key)
        if name is None:
            continue
        try:
            found.append(Declared(name, text, check(definition, name, parse_columns(name, text))))
        except HeadwaterError as error:
            found.append(Declared(name, text, None, error.parameters.get("reason", error.condition)))
    return found


def parse_columns(name: str, text: str) -> list[str]:
    """The names of the columns that a property lists.

    :raises HeadwaterError: ``HEADWATER_INVALID_INDEX``.
    """
    try:
        paths = parse_name_list(text)
    except HeadwaterError:
        raise invalid(name, f"'{text[:200]}' is not a list of columns") from None
    nested = next((path for path in paths if len(path) > 1), None)
    if nested is not None:
        raise invalid(name, f"{format_name(nested)} is a field of a struct; only columns of the table can be indexed")
    return [path[0] for path in paths]


def check(definition: TableDefinition, name: str, columns: Sequence[str]) -> KeyIndex:
    """The index, if a table can have it.

    :raises HeadwaterError: ``HEADWATER_INVALID_INDEX``.
    """
    folded = name.lower()
    if not is_name(folded):
        raise invalid(name, "The name of an index has letters, digits, '_' and '-', at most 64")
    if not columns:
        raise invalid(name, "It has no columns")
    if len(columns) > MOST_COLUMNS:
        raise invalid(name, f"It has {len(columns)} columns; at most {MOST_COLUMNS} are possible")
    fields = []
    for column in columns:
        field = definition.schema.find(column)
        if field is None:
            raise invalid(name, f"The table has no column {format_name((column,))}")
        if field in fields:
            raise invalid(name, f"It names {format_name((column,))} twice")
        if field.name in definition.partition_columns:
            raise invalid(
                name,
                f"{format_name((field.name,))} is a partition column, by which files are chosen without an index. "
                "Index the other columns of the key",
            )
        if kind_of(field) is None:
            raise invalid(
                name,
                f"{format_name((field.name,))} is of the type {field.type.sql()}. Columns of whole numbers, decimals, "
                "strings without collation or declared length, dates and timestamps can be indexed",
            )
        fields.append(field)
    return KeyIndex(folded, tuple(fields))


def check_given(definition: TableDefinition, given: Mapping[str, str]) -> None:
    """Refuse properties of indexes that a statement gives a table and that it cannot have.

    :param definition: with these properties.
    :param given: the properties of the statement, each of them under its one spelling.
    :raises HeadwaterError: ``HEADWATER_INVALID_INDEX``.
    """
    for key, text in given.items():
        if not key.lower().startswith(INDEX_PREFIX):
            continue
        name = index_name(key)
        if name is None:
            what = key[len(INDEX_PREFIX) :]
            raise invalid(what, f"'{key}' is no property of an index; its property is '{property_of('<name>')}'")
        check(definition, name, parse_columns(name, text))
        check_number(definition, name)


def check_number(definition: TableDefinition, name: str) -> None:
    """Refuse one index too many.

    :param definition: with the index of the name.
    :raises HeadwaterError: ``HEADWATER_INVALID_INDEX``.
    """
    others = [each.name for each in declared(definition)]
    if len(others) > MOST_INDEXES:
        raise invalid(name, f"A table has at most {MOST_INDEXES} indexes. Drop one that no query needs")


def invalid(name: str, reason: str) -> HeadwaterError:
    """``HEADWATER_INVALID_INDEX``.

    :param reason: a sentence, without its full stop.
    """
    return HeadwaterError("HEADWATER_INVALID_INDEX", {"index": name, "reason": reason})
