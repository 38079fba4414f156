"""The grammar of statements that Spark's parser does not know, or would read as something else.

Owns the list of these grammars, each in a module of its own, which says what it parses. A table is a name, a path in
quotes, or ``IDENTIFIER(…)``, and stands in a command as it is written, quotes included: Spark reads it, so that its
escapes and variables mean what they mean elsewhere. Any other text is Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headwater.sql.grammar import (
    alter,
    analyze,
    clone,
    convert,
    copy_into,
    describe,
    fsck,
    generate,
    indexes,
    maintain,
    optimize,
    reorg,
    restore,
    transactions,
    vacuum,
)
from headwater.sql.grammar.shared import Parsed
from headwater.sql.older_sparks import WITH_CONSTRAINTS, is_before
from headwater.sql.tokens import Token, tokens


class Grammar(NamedTuple):
    """How some statements are written.

    :param parse: the command of a text, given its tokens; None for another statement. It raises ``PARSE_SYNTAX_ERROR``.
    :param first_words: of the statements that Spark's parser would read as something else.
    :param until: the first line of Spark that parses these statements itself.
    """

    parse: Callable[[Sequence[Token], str], Parsed | None]
    first_words: Sequence[str] = ()
    until: tuple[int, int] | None = None


GRAMMARS: Mapping[str, Grammar] = {
    "describe": Grammar(describe.parse, first_words=describe.FIRST_WORDS),
    "transactions": Grammar(transactions.parse),
    "alter": Grammar(alter.parse),
    "analyze": Grammar(analyze.parse),
    "generate": Grammar(generate.parse),
    "restore": Grammar(restore.parse),
    "convert": Grammar(convert.parse),
    "copy_into": Grammar(copy_into.parse),
    "optimize": Grammar(optimize.parse),
    "reorg": Grammar(reorg.parse),
    "clone": Grammar(clone.parse),
    "vacuum": Grammar(vacuum.parse),
    "fsck": Grammar(fsck.parse),
    "indexes": Grammar(indexes.parse),
    "maintain": Grammar(maintain.parse),
    "constraints": Grammar(alter.parse_constraints, until=WITH_CONSTRAINTS),
}


def parse(text: str, spark_version: str | None = None) -> Parsed | None:
    """The command of a text with its table and arguments, None if the text is Spark's.

    :param spark_version: of the Spark that asks; None for the newest.
    :raises HeadwaterError: ``PARSE_SYNTAX_ERROR``, and those of a grammar.
    """
    found = tokens(text)
    if not found:
        return None
    for grammar in GRAMMARS.values():
        applies = grammar.until is None or is_before(grammar.until, spark_version)
        if applies and (parsed := grammar.parse(found, text)) is not None:
            return parsed
    return None


def first_words() -> list[str]:
    """How the texts begin that the JVM's parser asks about before Spark's (``HeadwaterParser.FirstWords``)."""
    return [words for grammar in GRAMMARS.values() for words in grammar.first_words]
