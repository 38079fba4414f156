"""Text from other writers, made safe to show: names, paths and values of a log.

Owns which characters would do something rather than show: control characters, which move a terminal's cursor or colour
it, those that turn the direction of the text around them, and halves of characters that no encoding has. Promise:
standard library only.
"""

from __future__ import annotations

import unicodedata

#: Characters that change the direction of the text around them.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """The text with each of these characters escaped as Python does it."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(letter) for letter in text)


def _shown(letter: str) -> str:
    if letter in _TURNING or unicodedata.category(letter) in ("Cc", "Cs"):
        return letter.encode("unicode_escape").decode("ascii")
    return letter
