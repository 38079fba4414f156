"""The outer shape of a predicate's SQL text.

Owns two steps that run before the SQL parser sees a predicate. ``lift`` takes the string literals out and decodes
them by Spark's own escape rules, so no parser's idea of a backslash can change a value. ``split`` takes the text
apart at its ANDs, ORs and NOTs, without recursion, so that a chain of a thousand ORs is no deeper than one, and a
piece nobody can read does not spoil its neighbours. Promise: what either cannot read for certain is refused with
``Unreadable``, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


class Unreadable(Exception):
    """The text's shape is not certain; whoever asked must treat the predicate as unknown."""


@dataclass(frozen=True)
class Lifted:
    """A string literal: its decoded text, ``None`` where that is no Unicode text, and the word before it (``DATE``)."""

    value: str | None
    keyword: str


#: A literal of binary digits, a string, a name, or what leaves that uncertain: a comment, a double quote.
_QUOTED = re.compile(
    r"""(?P<hex>(?<![\w`])[xX]'[0-9A-Fa-f]*')|(?P<string>'(?:[^'\\]|\\.)*')|(?P<name>`(?:[^`]|``)*`)"""
    r"""|(?P<bad>--|/\*|"|'|`)""",
    re.DOTALL,
)
#: Before its conditions are written out Catalyst prints BETWEEN as a function, which no SQL parser takes for one.
_BETWEEN_FUNCTION = re.compile(r"((?:^|[(,!]|\b(?:AND|OR|NOT)\b)\s*)between\(", re.IGNORECASE)
#: The name that such a function gets.
BETWEEN = "hw_between"
_KEYWORD = re.compile(r"([A-Za-z_]+)\s*$")
_ESCAPE = re.compile(
    r"\\(?:u(?P<short>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})|(?P<octal>[01][0-7]{2})|(?P<char>.))", re.DOTALL
)
_CHARACTERS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def decode_string(quoted: str) -> str | None:
    """The value of the inside of a single-quoted Spark string; ``None`` where the escapes make no Unicode text."""
    if "\\" not in quoted:
        return quoted

    def character(match: re.Match[str]) -> str:
        if code := match["short"] or match["long"]:
            return chr(int(code, 16))
        return chr(int(match["octal"], 8)) if match["octal"] else _CHARACTERS.get(match["char"], match["char"])

    try:
        # Escapes are UTF-16 units to Spark: two of them may be one character.
        return _ESCAPE.sub(character, quoted).encode("utf-16", "surrogatepass").decode("utf-16")
    except (UnicodeError, ValueError, OverflowError):
        return None


def lift(sql: str) -> tuple[str, dict[str, Lifted]]:
    """The text with each string literal replaced by ``'hw<n>'``, and the literals by that name.

    :raises Unreadable: where a quote or a comment leaves the text's shape uncertain.
    """
    strings: dict[str, Lifted] = {}
    pieces: list[str] = []
    position = 0
    for match in _QUOTED.finditer(sql):
        if match.lastgroup == "bad":
            raise Unreadable(sql)
        if match.lastgroup != "string":
            continue
        if pieces and match.start() == position:
            raise Unreadable(sql)  # 'a''b' is one string or two, by a setting
        before = sql[position : match.start()]
        keyword = _KEYWORD.search(before)
        name = f"hw{len(strings)}"
        strings[name] = Lifted(decode_string(match.group()[1:-1]), keyword.group(1).upper() if keyword else "")
        pieces += [before, f"'{name}'"]
        position = match.end()
    return _BETWEEN_FUNCTION.sub(rf"\1{BETWEEN}(", "".join([*pieces, sql[position:]])), strings


_TOKEN = re.compile(r"`(?:[^`]|``)*`|'[^']*'|[()]|[A-Za-z_]\w*|\d[\w.]*|\S")
_OPERATORS = {"OR": 1, "AND": 2, "NOT": 3, "!": 3}
#: Words that have an AND of their own inside, or boolean text that is no operand of the outer one.
_UNSPLIT = {"BETWEEN", "CASE"}


def split(text: str, atom: Callable[[str], T], negate: Callable[[T], T], join: Callable[[str, Sequence[T]], T]) -> T:
    """Fold lifted text over its boolean structure.

    :param atom: what a piece without an outer AND, OR or NOT becomes.
    :param negate: what ``NOT piece`` becomes.
    :param join: what pieces between ``"AND"`` or ``"OR"`` become, two or more.
    :raises Unreadable: where parentheses or operators do not pair up.
    """
    tokens = [(m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text)]
    words = [token.upper() for token, _, _ in tokens]
    if _UNSPLIT.intersection(words):
        return atom(text)
    groups = _groups(words, text)
    values: list[tuple[str, list[T]]] = []  # an operator and its operands so far; "" holds a single piece
    operators: list[str] = []

    def reduce() -> None:
        operator = operators.pop()
        if operator == "NOT":
            values.append(("", [negate(_close(values.pop(), join))]))
            return
        right, left = values.pop(), values.pop()
        same = left[1] if left[0] == operator else [_close(left, join)]
        same += right[1] if right[0] == operator else [_close(right, join)]
        values.append((operator, same))

    i = 0
    operand_next = True
    while i < len(tokens):
        word = words[i]
        if operand_next and word in ("NOT", "!"):
            operators.append("NOT")
        elif operand_next and word == "(" and i in groups:
            operators.append("(")
        elif operand_next:
            end = _atom_end(words, i, groups, text)
            values.append(("", [atom(text[tokens[i][1] : tokens[end - 1][2]])]))
            operand_next, i = False, end
            continue
        elif word == ")":
            while operators and operators[-1] != "(":
                reduce()
            if not operators:
                raise Unreadable(text)
            operators.pop()
        elif word in ("AND", "OR"):
            while operators and operators[-1] != "(" and _OPERATORS[operators[-1]] >= _OPERATORS[word]:
                reduce()
            operators.append(word)
            operand_next = True
        else:
            raise Unreadable(text)
        i += 1
    if operand_next:
        raise Unreadable(text)
    while operators:
        reduce()
    if len(values) != 1:
        raise Unreadable(text)
    return _close(values[0], join)


def _close(value: tuple[str, list[T]], join: Callable[[str, Sequence[T]], T]) -> T:
    operator, operands = value
    return join(operator, operands) if operator else operands[0]


def _groups(words: list[str], text: str) -> set[int]:
    """Where a parenthesis opens a whole operand: around it only operators, other such parentheses or the ends."""
    opened: list[int] = []
    pairs: dict[int, int] = {}
    for i, word in enumerate(words):
        if word == "(":
            opened.append(i)
        elif word == ")":
            if not opened:
                raise Unreadable(text)
            pairs[opened.pop()] = i
    if opened:
        raise Unreadable(text)
    groups = set()
    for start in sorted(pairs):
        before = start == 0 or words[start - 1] in _OPERATORS or start - 1 in groups
        after = pairs[start] + 1 == len(words) or words[pairs[start] + 1] in ("AND", "OR", ")")
        if before and after:
            groups.add(start)
    return groups


def _atom_end(words: list[str], start: int, groups: set[int], text: str) -> int:
    """The token after the piece that starts here: an AND or OR outside parentheses, or what closes around it."""
    depth = 0
    for i in range(start, len(words)):
        if words[i] == "(":
            depth += 1
        elif words[i] == ")":
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and words[i] in ("AND", "OR"):
            break
    else:
        i = len(words)
    if i == start:
        raise Unreadable(text)
    return i
