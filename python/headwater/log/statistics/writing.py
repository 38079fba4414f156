"""Per-file statistics: from a data file's footer to the JSON text of an ``add`` action.

Owns how row count, bounds and null counts are spelled. Follows the protocol's chapter "Per-file Statistics". Promise:
a bound that is written does bound. Texts are cut to a length that keeps the log small, a maximum then made greater
again; times are cut down to milliseconds, which every reader makes up for; what cannot be said right is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from math import isinf, isnan
from typing import Any

from headwater.protocol.indexed_columns import has_bounds
from headwater.protocol.types import DataType, DecimalType, PrimitiveType

#: Texts are cut to so many characters where the table says nothing else.
STRING_PREFIX_LENGTH = 32
_ASCII_LAST = "\x7f"
_UNICODE_LAST = "\U0010ffff"
#: What decoding leaves of bytes that are no UTF-8; where such bytes sort is not known any more.
_REPLACEMENT = "\ufffd"
_EPOCH = datetime(1970, 1, 1)
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
_INFINITIES = ("Infinity", "-Infinity")

#: A leaf's physical path and type.
Leaf = tuple[tuple[str, ...], DataType]
#: Raw value to JSON text; None if it cannot be said.
_Encoder = Callable[[Any], str | None]
#: Quoted name to a leaf's position or the node of a struct.
_Tree = dict[str, Any]


def statistics_json(
    rows: int | None,
    leaves: Sequence[Leaf],
    values: Sequence[Sequence[Any]],
    *,
    tight_bounds: bool | None = None,
    string_length: int = STRING_PREFIX_LENGTH,
) -> str:
    """The text of ``add.stats`` for one file.

    :param rows: how many rows the file has, deleted ones included; None is unknown.
    :param leaves: the columns with statistics; the same sequence for many files is prepared once.
    :param values: for each leaf minimum, maximum and null count as the footer has them: integers; dates in days,
        timestamps in microseconds since the epoch; decimals as text; floating numbers, or the text ``Infinity``;
        strings. None is unknown.
    :param tight_bounds: written where given.
    """
    plan = _plan(tuple(leaves), string_length)
    lows: list[str | None] = []
    highs: list[str | None] = []
    nulls: list[str | None] = []
    for (low, high), (minimum, maximum, count) in zip(plan.encoders, values, strict=True):
        lows.append(None if minimum is None or low is None else low(minimum))
        highs.append(None if maximum is None or high is None else high(maximum))
        nulls.append(None if count is None else str(int(count)))
    tree = plan.tree
    tight = "" if tight_bounds is None else f',"tightBounds":{"true" if tight_bounds else "false"}'
    count = "" if rows is None else f'"numRecords":{int(rows)},'
    return (
        f'{{{count}"minValues":{{{_members(tree, lows)}}},'
        f'"maxValues":{{{_members(tree, highs)}}},"nullCount":{{{_members(tree, nulls)}}}{tight}}}'
    )


class _Plan:
    """What is the same for all files: an encoder of minimum and maximum a leaf (None if its type has no bounds),
    and the nesting.
    """

    def __init__(self, leaves: tuple[Leaf, ...], string_length: int) -> None:
        self.encoders = [_encoders(kind, string_length) if has_bounds(kind) else (None, None) for _, kind in leaves]
        self.tree: _Tree = {}
        for position, (path, _) in enumerate(leaves):
            node = self.tree
            for name in path[:-1]:
                node = node.setdefault(_quoted(name), {})
            node[_quoted(path[-1])] = position


_plan = lru_cache(maxsize=64)(_Plan)


def _members(tree: _Tree, texts: Sequence[str | None]) -> str:
    """The members of the JSON object of a tree; columns without a text, and structs without such columns, are left
    out.
    """
    members = []
    for name, node in tree.items():
        if isinstance(node, int):
            text = texts[node]
            if text is not None:
                members.append(f"{name}:{text}")
        elif inner := _members(node, texts):
            members.append(f"{name}:{{{inner}}}")
    return ",".join(members)


def _encoders(kind: DataType, string_length: int) -> tuple[_Encoder, _Encoder]:
    if isinstance(kind, DecimalType):
        return _decimal, _decimal
    assert isinstance(kind, PrimitiveType)
    match kind.name:
        case "string":
            return lambda text: _lower_text(text, string_length), lambda text: _upper_text(text, string_length)
        case "float" | "double":
            return _floating, _floating
        case "date":
            return _date, _date
        case "timestamp":
            return _timestamp, _timestamp
        case "timestamp_ntz":
            return _local_timestamp, _local_timestamp
    return _integer, _integer


def _integer(value: Any) -> str:
    return str(int(value))


def _decimal(value: Any) -> str | None:
    """Exactly the digits, which a floating number may not hold."""
    text = str(value)
    return text if _NUMBER.fullmatch(text) else None


def _floating(value: Any) -> str | None:
    if isinstance(value, str):
        return f'"{value}"' if value in _INFINITIES else None
    number = float(value)
    if isnan(number):
        return None
    if isinf(number):
        return f'"{_INFINITIES[number < 0]}"'
    return repr(number)


def _date(days: Any) -> str | None:
    try:
        return f'"{(_EPOCH + timedelta(days=days)).isoformat()[:10]}"'
    except OverflowError:  # a year that ISO 8601 has no four digits for
        return None


def _timestamp(microseconds: Any) -> str | None:
    text = _milliseconds(microseconds)
    return text and f'"{text}Z"'


def _local_timestamp(microseconds: Any) -> str | None:
    text = _milliseconds(microseconds)
    return text and f'"{text}"'


def _milliseconds(microseconds: Any) -> str | None:
    try:
        return (_EPOCH + timedelta(milliseconds=microseconds // 1000)).isoformat("T", "milliseconds")
    except OverflowError:
        return None


def _lower_text(text: str, length: int) -> str | None:
    """A prefix, which never sorts after the whole."""
    prefix = text[:length]
    if _REPLACEMENT in prefix:
        prefix = prefix[: prefix.index(_REPLACEMENT)]
    return _text(prefix)


def _upper_text(text: str, length: int) -> str | None:
    """A prefix with a character after it that sorts after the one left out; order is that of UTF-8 bytes, which is
    code points'.
    """
    if _REPLACEMENT in text[: 2 * length + 1]:
        return None
    if len(text) <= length:
        return _text(text)
    for end in range(length, min(len(text), 2 * length)):
        if text[end] < _ASCII_LAST:
            return _text(text[:end] + _ASCII_LAST)
        if text[end] < _UNICODE_LAST:
            return _text(text[:end] + _UNICODE_LAST)
    return _text(text) if len(text) <= 2 * length else None


def _text(text: str) -> str | None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    return _quoted(text)
