"""Values of a user's expressions outside of rows: a version, a time, a number of hours.

A plain number or text is read here. Spark evaluates anything else, so that functions, casts, session variables and time
zones mean what they mean in a query.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from headwater.basics.errors import illegal_option
from headwater.bridge.statement import Statement
from headwater.protocol.types import PrimitiveType
from headwater.sql.composing import Alias, Cast, Resolved, call, select

_STRING = PrimitiveType("string")
#: A string without escapes.
_PLAIN = re.compile(r"'[^'\\]*'")
_NUMBER = re.compile(r"'?\s*([+-]?\d+(?:\.\d+)?)\s*'?")


class Time(NamedTuple):
    """A time: microseconds since the epoch, UTC; and as text in the session's time zone."""

    microseconds: int
    text: str


def number_of(text: str, statement: Statement) -> str:
    """The value of an expression as text, which need not be that of a number; Spark's own error where it has none."""
    if (plain := _NUMBER.fullmatch(text)) is not None and text.startswith("'") == text.endswith("'"):
        return plain.group(1)
    value = Cast(Resolved(statement.place(text)), _STRING)
    found = statement.query(select(Alias(value, "value")).text())[0].get("value")
    return "NULL" if found is None else str(found).strip()


def texts_of(texts: Sequence[str], statement: Statement) -> list[str]:
    """The values of expressions as texts, in order; Spark's own error where one has none.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION`` for a null.
    """
    values = {text: text[1:-1] for text in texts if _PLAIN.fullmatch(text)}
    others = [text for text in dict.fromkeys(texts) if text not in values]
    if others:
        columns = [Alias(Cast(Resolved(statement.place(text)), _STRING), f"value_{i}") for i, text in enumerate(others)]
        found = statement.query(select(*columns).text())[0]
        for number, text in enumerate(others):
            if (value := found.get(f"value_{number}")) is None:
                raise illegal_option("the value", text, "must not be null")
            values[text] = str(value)
    return [values[text] for text in texts]


def time_of(text: str, statement: Statement) -> Time | None:
    """The value of an expression as a time; None if it is not one."""
    value = Cast(Resolved(statement.place(text)), PrimitiveType("timestamp"), or_null=True)
    query = select(Alias(call("unix_micros", value), "time"), Alias(Cast(value, _STRING), "text"))
    found = statement.query(query.text())[0]
    return Time(int(found["time"]), str(found["text"])) if "time" in found else None
