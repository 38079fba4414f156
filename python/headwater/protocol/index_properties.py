"""The table properties ``headwater.index.<name>.columns``, each of which declares a key index.

Owns their names, their values, which are lists of columns, and what becomes of them when columns are renamed or
dropped. What an index is, and whether a table can have it, says :mod:`headwater.key_index`. Promise: an index follows
its columns, and goes with the first of them that goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headwater.basics.errors import HeadwaterError
from headwater.protocol.columns import Path, format_name, parse_name_list
from headwater.protocol.properties import INDEX_COLUMNS, INDEX_PREFIX
from headwater.protocol.types import StructType


def index_name(key: str) -> str | None:
    """The name of the index that a property declares, in lower case; None for any other property."""
    folded = key.lower()
    if not folded.startswith(INDEX_PREFIX) or not folded.endswith(INDEX_COLUMNS):
        return None
    return folded[len(INDEX_PREFIX) : -len(INDEX_COLUMNS)] or None


def property_of(name: str) -> str:
    """The property that declares an index."""
    return f"{INDEX_PREFIX}{name.lower()}{INDEX_COLUMNS}"


def property_value(columns: Sequence[str]) -> str:
    """The value of the property for top-level columns."""
    return ", ".join(format_name((column,)) for column in columns)


def following_indexes(configuration: Mapping[str, str], follow: Callable[[Path], Path | None]) -> dict[str, str]:
    """The properties after a change of the columns. One that cannot be read stays as it is.

    :param follow: what becomes of the path of a column; None if nothing does.
    """
    changed = dict(configuration)
    for key, text in configuration.items():
        if index_name(key) is None:
            continue
        try:
            named = parse_name_list(text)
        except HeadwaterError:
            continue
        now = [follow(column) for column in named]
        if None in now:
            del changed[key]
        elif now != named:
            changed[key] = ", ".join(format_name(path) for path in now if path is not None)
    return changed


def without_lost_indexes(schema: StructType, configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties of a table that gets other columns: without indexes of columns that it does not have."""
    return following_indexes(configuration, lambda path: path if schema.find(path[0]) is not None else None)
