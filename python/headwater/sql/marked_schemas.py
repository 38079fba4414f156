"""``ALTER SCHEMA <name> {ENABLE | DISABLE | INHERIT} PREDICTIVE OPTIMIZATION``: marks the tables of a schema for
maintenance.

Spark's parser does not know it. Owns the same statement in words that it takes: the mark is a property of the schema.
That of a table is :mod:`headwater.sql.grammar.maintain`'s.
"""

from __future__ import annotations

from headwater.protocol.properties import PREDICTIVE_OPTIMIZATION
from headwater.sql.tokens import Pattern, end_of_table, literal, text_of, tokens

_ALTER = Pattern("ALTER (SCHEMA|DATABASE|NAMESPACE)")
_MARK = Pattern("(ENABLE|DISABLE|INHERIT) PREDICTIVE OPTIMIZATION")


def for_spark(text: str) -> str | None:
    """The statement as Spark's parser takes it; None for any other text."""
    found = tokens(text) or []
    begun = _ALTER.match(found)
    end = None if begun is None else end_of_table(found, begun.end)
    if end is None or len(found) - end not in set(_MARK.ends(found[end:])):
        return None
    pair = f"{literal(PREDICTIVE_OPTIMIZATION.name)} = {literal(found[end].value.upper())}"
    return f"{text_of(text, found, 0, end)} SET DBPROPERTIES ({pair})"
