"""Forms of statements that only newer Sparks parse, made available in older ones.

Owns the same statement in words that those Sparks take: WITH SCHEMA EVOLUTION and REPLACE USING or ON of an INSERT
become options that mean the same. And the error for CHANGES FROM, which no other words express. CHECK constraints are
in :mod:`headwater.sql.older_constraints` and :mod:`headwater.sql.grammar.alter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import TokenType

from headwater.basics.errors import HeadwaterError
from headwater.sql import older_constraints
from headwater.sql.tokens import Token, after, end_of_table, literal, outer, text_of, tokens

#: What REPLACE USING or ON becomes: options of the table, which the JVM's parser of such a Spark makes a replacing
#: write of. Spark refuses that write to a table of another format, where it would let an overwrite pass.
_USING, _ON, _ALIAS = "headwater.replaceUsing", "headwater.replaceOn", "headwater.targetAlias"
#: The first line of Spark that parses all of them, and the first that parses CHECK constraints.
_FIRST, WITH_CONSTRAINTS = (4, 2), (4, 1)
_QUERIES = ("SELECT", "VALUES", "TABLE", "FROM", "WITH", "MAP", "REDUCE")
#: Words after which a query in brackets is part of a condition, and does not follow it.
_BEFORE_OPERANDS = ("IN", "EXISTS", "ANY", "ALL", "SOME", "AND", "OR", "NOT", "LIKE", "BETWEEN", "WHEN", "THEN", "ELSE")
_OPENING, _CLOSING = TokenType.L_PAREN, TokenType.R_PAREN


def for_spark(text: str, spark_version: str | None) -> str | None:
    """The statement as this Spark parses it; None if there is none of these forms in it, or this Spark knows them.

    :param spark_version: None for the newest.
    :raises HeadwaterError: ``HEADWATER_NEEDS_NEWER_SPARK`` for a form that has no other words.
    """
    if spark_version is None or not is_before(_FIRST, spark_version):
        return None
    found = tokens(text)
    if not found or found[0].is_word_of("BEGIN"):
        return None
    for at in range(len(found) - 1):
        if found[at].is_word_of("CHANGES") and found[at + 1].is_word_of("FROM"):
            instead = "Use the function table_changes('<table>', <first version>, <last version>) in its place."
            raise HeadwaterError(
                "HEADWATER_NEEDS_NEWER_SPARK",
                {"statement": "CHANGES FROM", "version": spark_version, "first": "4.2", "instead": instead},
            )
    if is_before(WITH_CONSTRAINTS, spark_version) and (created := older_constraints.creation(text, found)) is not None:
        return created
    start = _outer(found, 0, "INSERT")
    if start is None or (start > 0 and not found[0].is_word_of("EXPLAIN", "WITH")):
        return None
    insert = _Reader(text, found, start + 1).insert()
    return None if insert is None else text[: found[start].start] + insert


def is_before(line: tuple[int, int], spark_version: str | None) -> bool:
    """Whether a Spark is older than a line. None is the newest."""
    return spark_version is not None and tuple(int(part) for part in spark_version.split(".")[:2]) < line


def _outer(found: Sequence[Token], start: int, *words: str) -> int | None:
    """The first of these words outside of brackets."""
    return next((at for at in outer(found, start) if found[at].is_word_of(*words)), None)


@dataclass
class _Reader:
    """Reads an INSERT from the token after that word."""

    text: str
    found: Sequence[Token]
    at: int

    def insert(self) -> str | None:
        evolves = self._words("WITH", "SCHEMA", "EVOLUTION")
        overwrites = not self._words("INTO") and self._words("OVERWRITE")
        self._words("TABLE")
        table = self._table()
        if table is None:
            return None
        options = {"mergeSchema": "true"} if evolves else {}
        given = self._brackets() if self._words("WITH") else ""
        alias = self._alias()
        by_name = self._words("BY", "NAME")
        if self._words("REPLACE", "USING"):
            options[_USING] = self._brackets()
        elif self._words("REPLACE", "ON"):
            options[_ON] = self._until(self._query())
            if alias is not None:
                options[_ALIAS] = alias
        elif not evolves:
            return None
        if _USING in options or _ON in options:
            overwrites = True
        listed = ", ".join([*([given] if given else []), *(f"'{k}' = {literal(v)}" for k, v in options.items())])
        words = ["INSERT", "OVERWRITE" if overwrites else "INTO", table, f"WITH ({listed})"]
        query = self._aliased() if _ON in options else self._rest()
        return " ".join([*words, *(["BY NAME"] if by_name else []), query])

    def _words(self, *words: str) -> bool:
        """Whether these words come next; they are then passed."""
        there = self.found[self.at : self.at + len(words)]
        if len(there) < len(words) or not all(t.is_word_of(w) for t, w in zip(there, words, strict=True)):
            return False
        self.at += len(words)
        return True

    def _until(self, end: int) -> str:
        start, self.at = self.at, end
        return text_of(self.text, self.found, start, end)

    def _rest(self) -> str:
        return self._until(len(self.found))

    def _table(self) -> str | None:
        end = end_of_table(self.found, self.at)
        if end is not None and self.found[self.at].is_word_of("IDENTIFIER") and self._opens(end):
            end = after(self.found, end)
        return None if end is None else self._until(end)

    def _opens(self, at: int) -> bool:
        return at < len(self.found) and self.found[at].kind is _OPENING

    def _brackets(self) -> str:
        """What stands in the brackets that come next."""
        if not self._opens(self.at):
            return ""
        end = after(self.found, self.at)
        inside = text_of(self.text, self.found, self.at + 1, end - 1)
        self.at = end
        return inside

    def _alias(self) -> str | None:
        """The name that REPLACE ON has for the table."""
        start = self.at
        self._words("AS")
        if self.at >= len(self.found) or not self.found[self.at].is_part or self.found[self.at].is_word_of("BY"):
            self.at = start
            return None
        named = self.at
        self.at += 1
        if self.at < len(self.found) and self.found[self.at].is_word_of("REPLACE", "BY"):
            return text_of(self.text, self.found, named, named + 1)
        self.at = start
        return None

    def _query(self) -> int:
        """Where the query begins that a condition is followed by."""
        at = self.at
        while at < len(self.found):
            if self.found[at].is_word_of(*_QUERIES):
                return at
            if self._opens(at) and self._is_operand(at - 1):
                inner = at
                while self._opens(inner):
                    inner += 1
                if inner < len(self.found) and self.found[inner].is_word_of(*_QUERIES):
                    return at
            at = after(self.found, at)
        return len(self.found)

    def _is_operand(self, at: int) -> bool:
        """Whether a token may end a condition."""
        token = self.found[at]
        if at < self.at or token.is_word_of(*_BEFORE_OPERANDS):
            return False
        return token.is_part or token.is_string or token.kind in (TokenType.NUMBER, _CLOSING, TokenType.R_BRACKET)

    def _aliased(self) -> str:
        """The query. Spark takes ``(query) AS name`` only where it reads from it."""
        if self._opens(self.at):
            end = after(self.found, self.at)
            named = end + 1 if end < len(self.found) and self.found[end].is_word_of("AS") else end
            if named + 1 == len(self.found) and self.found[named].is_part:
                return f"SELECT * FROM {self._rest()}"
        return self._rest()
