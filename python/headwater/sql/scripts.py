"""Scripts (``BEGIN … END``) with statements that Spark's parser does not know.

Spark parses the text of a script alone. Owns the same script with such statements under ``EXECUTE IMMEDIATE``, whose
text comes to our parser when the script reaches it. Variables of the script are not seen there. Forms that only newer
Sparks parse are in words that this one takes.
"""

from __future__ import annotations

from headwater.sql import expectation_clauses, grammar, marked_schemas, older_sparks
from headwater.sql.tokens import Token, literal, tokens

#: What a statement of a script may follow, beside the end of another.
_OPENERS = ("BEGIN", "ATOMIC", "THEN", "ELSE", "DO", "LOOP", "REPEAT")


def for_spark(text: str, spark_version: str | None = None, *, default_is_delta: bool = False) -> str | None:
    """The script as Spark's parser takes it; None if the text is no script, or has no statement of ours.

    :param spark_version: of the Spark that parses it; None for the newest.
    :param default_is_delta: whether a table without USING is a Delta table.
    :raises HeadwaterError: ``PARSE_SYNTAX_ERROR`` for a statement of ours that is not written well;
        ``HEADWATER_NEEDS_NEWER_SPARK``.
    """
    found = tokens(text)
    if not found or not found[0].is_word_of("BEGIN"):
        return None
    made, written = "", 0
    for at in range(1, len(found)):
        if not (_is_end(found[at - 1]) or found[at - 1].is_word_of(*_OPENERS)):
            continue
        end = next((end for end in range(at, len(found)) if _is_end(found[end])), at)
        statement = text[found[at].start : found[end - 1].end] if end > at else ""
        if statement:
            expecting = expectation_clauses.for_spark(statement, default_is_delta=default_is_delta)
            if expecting is not None:
                statement = older_sparks.for_spark(expecting, spark_version) or expecting
                made += text[written : found[at].start] + statement
                written = found[end - 1].end
                continue
        if statement and grammar.parse(statement, spark_version):
            made += f"{text[written : found[at].start]}EXECUTE IMMEDIATE {literal(statement)}"
            written = found[end - 1].end
        elif statement and (
            (other := marked_schemas.for_spark(statement) or older_sparks.for_spark(statement, spark_version))
            is not None
        ):
            made += f"{text[written : found[at].start]}{other}"
            written = found[end - 1].end
    return made + text[written:] if made else None


def _is_end(token: Token) -> bool:
    return token.value == ";" and not token.is_string and not token.is_part
