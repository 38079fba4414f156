"""The grammar of COPY INTO.

Owns the parsing of ``[EXPLAIN] COPY INTO <table> [BY POSITION | (<column>, …)] FROM <path>``, or ``FROM (SELECT
<expression>, … FROM <path>)``, then ``FILEFORMAT = <format>`` and, in any order, ``VALIDATE [ALL | <number> ROWS]``,
``FILES = (…)`` or ``PATTERN = …``, ``FORMAT_OPTIONS (…)``, ``COPY_OPTIONS (…)``. Promise: paths, patterns and values
of options come as the expressions that the user wrote, and Spark evaluates each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import TokenType

from headwater.basics.errors import HeadwaterError
from headwater.sql.grammar.shared import Parsed, longest_table_after, not_parsed
from headwater.sql.tokens import Pattern, Token, closing, literal, outer, text_of

_COPY = Pattern("[EXPLAIN [EXTENDED|FORMATTED|CODEGEN|COST|LOGICAL]] COPY INTO")
_BY_POSITION = Pattern("BY POSITION")
_VALIDATE_ALL = Pattern("VALIDATE ALL")
#: What a clause after the source begins with.
_CLAUSES = ("FILEFORMAT", "VALIDATE", "FILES", "PATTERN", "FORMAT_OPTIONS", "COPY_OPTIONS")
#: What a SELECT of COPY INTO cannot have after its path.
_OF_QUERIES = ("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW",
               "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "LATERAL", "UNION", "INTERSECT", "EXCEPT", "MINUS",
               "QUALIFY", "PIVOT", "UNPIVOT", "TABLESAMPLE")  # fmt: skip
_COPY_IS = (
    "COPY INTO t [BY POSITION | (column, …)] FROM {'path' | (SELECT expression, … FROM 'path')} FILEFORMAT = format "
    "[VALIDATE [ALL | n ROWS]] [FILES = ('name', …) | PATTERN = 'glob'] [FORMAT_OPTIONS ('option' = 'value', …)] "
    "[COPY_OPTIONS ('option' = 'value', …)]"
)


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    if (begun := longest_table_after(_COPY, found, text)) is None:
        return None
    table, rest = begun
    arguments = _Reader(rest, text).arguments()
    if found[0].is_word_of("EXPLAIN"):
        return Parsed("explain_copy_into", table, arguments)
    return Parsed("copy_into" if arguments["validate"] is None else "copy_into_validate", table, arguments)


class _Reader:
    """Reads what follows the table, from left to right."""

    def __init__(self, rest: Sequence[Token], text: str) -> None:
        self._rest, self._text, self._at = rest, text, 0

    def arguments(self) -> dict[str, Any]:
        """The members of ``CopyArguments``."""
        given: dict[str, Any] = {"validate": None, **self._target_columns()}
        if not self._takes("FROM"):
            raise self._wrong("after the table comes FROM")
        given |= self._source()
        named: set[str] = set()
        while self._at < len(self._rest):
            word = self._rest[self._at].value.upper() if self._rest[self._at].is_word else ""
            if word not in _CLAUSES:
                raise self._wrong(f"'{self._written(self._at)}' is not part of it")
            if word in named:
                raise self._wrong(f"{word} is there twice")
            named.add(word)
            given |= self._clause(word)
        if "FILEFORMAT" not in named:
            raise self._wrong("FILEFORMAT is missing")
        if {"FILES", "PATTERN"} <= named:
            raise self._wrong("it takes FILES or PATTERN, not both")
        return given

    def _target_columns(self) -> dict[str, Any]:
        self._refuse_credentials()
        if (by := _BY_POSITION.match(self._rest[self._at :])) is not None:
            self._at += by.end
            return {"byPosition": True}
        if self._at < len(self._rest) and self._rest[self._at].kind is TokenType.L_PAREN:
            inside = self._brackets("the columns")
            listed = _split(inside)
            if not all(len(tokens) == 1 and tokens[0].is_part for tokens in listed):
                raise self._wrong("the list after the table has names of columns, with commas between them")
            return {"columns": [tokens[0].value for tokens in listed]}
        return {}

    def _source(self) -> dict[str, Any]:
        if self._at == len(self._rest) or self._rest[self._at].kind is not TokenType.L_PAREN:
            return {"source": self._expression("the path of the files")}
        inside = self._brackets("the SELECT")
        if not inside or not inside[0].is_word_of("SELECT"):
            return {"source": text_of(self._text, inside, 0, len(inside))}
        last = max((at for at in outer(inside, 0) if inside[at].is_word_of("FROM")), default=0)
        path = inside[last + 1 :]
        for at in outer(path, 0):
            if path[at].is_word_of("WITH"):
                raise _credentials()
            if path[at].is_word_of(*_OF_QUERIES) or path[at].kind is TokenType.COMMA:
                raise self._wrong(f"its SELECT ends with the path, and has no '{path[at].value}'")
        if not last or not path:
            raise self._wrong("its SELECT ends with FROM and the path of the files")
        source = text_of(self._text, path, 0, len(path))
        if [token.value for token in inside[1:last]] == ["*"]:
            return {"source": source}
        return {"select": text_of(self._text, inside, 0, last), "source": source}

    def _clause(self, word: str) -> dict[str, Any]:
        if word == "VALIDATE":
            return {"validate": self._validate()}
        self._at += 1
        if word.endswith("_OPTIONS"):
            return {"formatOptions" if word == "FORMAT_OPTIONS" else "copyOptions": self._options(word)}
        if self._at == len(self._rest) or self._rest[self._at].kind is not TokenType.EQ:
            raise self._wrong(f"after {word} comes =")
        self._at += 1
        if word == "FILEFORMAT":
            if self._at == len(self._rest) or not (self._rest[self._at].is_part or self._rest[self._at].is_string):
                raise self._wrong("after FILEFORMAT = comes a format, such as CSV")
            self._at += 1
            return {"format": self._rest[self._at - 1].value}
        if word == "PATTERN":
            return {"pattern": self._expression("the pattern")}
        names = _split(self._brackets("the names of FILES"))
        if not all(names):
            raise self._wrong("FILES has names of files, with commas between them")
        return {"files": [text_of(self._text, tokens, 0, len(tokens)) for tokens in names]}

    def _validate(self) -> str:
        if (everything := _VALIDATE_ALL.match(self._rest[self._at :])) is not None:
            self._at += everything.end
            return "ALL"
        self._at += 1
        end = next((at for at in outer(self._rest, self._at) if self._rest[at].is_word_of(*_CLAUSES, "ROWS")), None)
        if end is None or not self._rest[end].is_word_of("ROWS"):
            return "ALL"
        number = text_of(self._text, self._rest, self._at, end)
        if not number:
            raise self._wrong("VALIDATE takes a number before ROWS")
        self._at = end + 1
        return number

    def _options(self, word: str) -> list[list[str]]:
        listed = []
        for tokens in _split(self._brackets(f"the options of {word}")):
            at = next((at for at, token in enumerate(tokens) if token.kind is TokenType.EQ), 0)
            if not at or at + 1 == len(tokens):
                raise self._wrong(f"{word} has pairs, such as 'option' = 'value'")
            name = text_of(self._text, tokens, 0, at)
            value = text_of(self._text, tokens, at + 1, len(tokens))
            listed.append([name if tokens[0].is_string else literal(name), value])
        return listed

    def _brackets(self, what: str) -> Sequence[Token]:
        """The tokens inside of the brackets that begin here."""
        end = closing(self._rest, self._at) if self._at < len(self._rest) else None
        if end is None:
            raise self._wrong(f"{what} must be in brackets")
        inside = self._rest[self._at + 1 : end - 1]
        self._at = end
        return inside

    def _expression(self, what: str) -> str:
        """The text up to the next clause."""
        begins = self._at
        ends = (at for at in outer(self._rest, begins) if self._rest[at].is_word_of(*_CLAUSES, "WITH"))
        self._at = next(ends, len(self._rest))
        self._refuse_credentials()
        if self._at == begins:
            raise self._wrong(f"{what} is missing")
        return text_of(self._text, self._rest, begins, self._at)

    def _refuse_credentials(self) -> None:
        if self._at < len(self._rest) and self._rest[self._at].is_word_of("WITH"):
            raise _credentials()

    def _takes(self, word: str) -> bool:
        if self._at == len(self._rest) or not self._rest[self._at].is_word_of(word):
            return False
        self._at += 1
        return True

    def _written(self, at: int) -> str:
        return text_of(self._text, self._rest, at, len(self._rest))

    def _wrong(self, what: str) -> HeadwaterError:
        return not_parsed(self._text, f"COPY INTO is written {_COPY_IS}: {what}")


def _credentials() -> HeadwaterError:
    return HeadwaterError(
        "DELTA_OPERATION_NOT_ALLOWED",
        {
            "operation": "COPY INTO … WITH (CREDENTIAL …)",
            "hint": "A statement's text is kept in logs and in the history of Spark. Set the credentials of the store "
            "in Spark's configuration (spark.hadoop.fs.…), or use the catalog's, and leave out WITH (…).",
        },
    )


def _split(inside: Sequence[Token]) -> list[Sequence[Token]]:
    """The parts between commas; none if there is nothing."""
    parts, begins = [], 0
    for at in outer(inside, 0):
        if inside[at].kind is TokenType.COMMA:
            parts.append(inside[begins:at])
            begins = at + 1
    return [*parts, inside[begins:]] if inside else []
