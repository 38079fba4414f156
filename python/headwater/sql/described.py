"""``(DESCRIBE …)`` as a table of a query: ``SELECT … FROM (DESCRIBE HISTORY t)``.

Spark's parser has no statement in the place of a table. Owns the same query with a table function in its place, whose
argument is the statement's text; the JVM's parser reads it where Spark resolves the function.
"""

from __future__ import annotations

from headwater.sql.grammar import describe
from headwater.sql.tokens import closing, literal, tokens

#: The name of the function, which the JVM registers (``DescribeFunction``).
FUNCTION = "headwater_describe"


def for_spark(text: str) -> str | None:
    """The query as Spark's parser takes it; None if it has no such table.

    :raises HeadwaterError: ``PARSE_SYNTAX_ERROR`` for a DESCRIBE that is not written well.
    """
    found = tokens(text) or []
    written, done = "", 0
    for at in range(len(found)):
        end = closing(found, at)
        if end is None or found[at].start < done:
            continue
        inner = found[at + 1 : end - 1]
        statement = text[inner[0].start : inner[-1].end] if inner else ""
        if describe.parse(inner, statement) is not None:
            written += f"{text[done : found[at].end]}SELECT * FROM {FUNCTION}({_argument(statement)})"
            done = inner[-1].end
    return written + text[done:] if written else None


def _argument(statement: str) -> str:
    """The text for Spark, whatever ``spark.sql.parser.escapedStringLiterals`` says of backslashes."""
    if "'" in statement or "\\" in statement:
        return f"CAST(X'{statement.encode().hex()}' AS STRING)"
    return literal(statement)
