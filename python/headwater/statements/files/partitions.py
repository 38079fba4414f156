"""Which files are in the same partition, by the values of the columns and not by their text.

Two texts may be one value: `1` and `1.0` in a column that was widened to DOUBLE, `0.0` and `-0.0`, or a timestamp with
a time zone and one without, which is in the session's. Strings may be equal under a collation, and values of CHAR(n)
are padded.

Statements that replace or show partitions use it. Statements that copy rows keep files with different texts apart, so
that each row keeps its value.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from headwater.bridge.statement import Statement
from headwater.protocol.column_metadata import DECLARED_TYPE
from headwater.protocol.partition_values import key_of, text_of, texts_of
from headwater.protocol.types import StructField
from headwater.sql.composing import Alias, Column, Expression, TableFunction, Text, call, select

#: Spark's metadata key for the collations of a column's texts: of the column itself, under its name.
_COLLATIONS = "__COLLATIONS"


def in_partitions(
    statement: Statement,
    maps: pa.ChunkedArray,
    columns: Sequence[StructField],
    partitions: Iterable[Mapping[str, str | None]],
) -> pa.Array:
    """Which files lie in one of some partitions.

    :param maps: the files' ``partition_values``.
    :param columns: the partition columns, of the types by which values are compared.
    """
    asked = [[text_of(values, column.physical_name) for column in columns] for values in partitions]
    numbers = np.zeros(len(maps), np.int64)
    wanted = np.zeros(len(asked), np.int64)
    for position, column in enumerate(columns):
        texts = texts_of(maps, column.physical_name).combine_chunks().dictionary_encode("encode")
        stored, written = texts.dictionary.to_pylist(), [values[position] for values in asked]
        keys = _keys(statement, column, {*stored, *written})
        known = {key: number for number, key in enumerate(dict.fromkeys(keys.values()))}
        of_text = np.array([known[keys[text]] for text in stored], np.int64)
        numbers = numbers * len(known) + of_text[texts.indices.to_numpy()]
        wanted = wanted * len(known) + np.array([known[keys[text]] for text in written], np.int64)
        # Numbered again after each column: the product of the counts of all columns may exceed 64 bits.
        both = np.unique(np.concatenate([numbers, wanted]), return_inverse=True)[1]
        numbers, wanted = both[: len(maps)], both[len(maps) :]
    return pa.array(np.isin(numbers, wanted), pa.bool_())


def _keys(statement: Statement, column: StructField, texts: Iterable[str | None]) -> Mapping[str | None, Hashable]:
    """What texts of a column share if and only if their values are equal."""
    if str(column.metadata.get(DECLARED_TYPE, "")).lower().startswith("char"):
        return {text: None if text is None else text.rstrip(" ") for text in texts}
    if collation_of(column) is None:
        return {text: key_of(text, column.type, statement.time_zone) for text in texts}
    return _equal_texts(statement, column, [text for text in texts if text is not None]) | {None: None}


def _equal_texts(statement: Statement, column: StructField, texts: Sequence[str]) -> dict[str | None, Hashable]:
    """A text for each text: the same one for texts that Spark takes for equal under the column's collation."""
    numbered = Text(json.dumps([{"n": number, "text": text} for number, text in enumerate(texts)]))
    rows = TableFunction(call("inline", call("from_json", numbered, Text("array<struct<n INT, text STRING>>"))))
    numbers, key = Alias(call("collect_list", Column("n")), "numbers"), collated(Column("text"), column)
    found: dict[str | None, Hashable] = {}
    statement.step("compare partitions")
    for row in statement.query(select(numbers, rows=rows, group_by=(key,)).text()):
        first, *others = (int(number) for number in row["numbers"])
        found |= {texts[number]: texts[first] for number in (first, *others)}
    return found


def collation_of(column: StructField) -> str | None:
    """The collation of a column's texts; None for the order of their bytes."""
    of_fields = column.metadata.get(_COLLATIONS)
    name = of_fields.get(column.name) if isinstance(of_fields, Mapping) else None
    return None if name is None else str(name).rpartition(".")[2]


def collated(value: Expression, column: StructField) -> Expression:
    """A value that Spark compares by a column's collation."""
    name = collation_of(column)
    return value if name is None else call("collate", value, Text(name))
