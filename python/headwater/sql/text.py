"""The text of a statement, before it is taken apart."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"(?s)\s+|--[^\n]*(?:\n|$)|/\*.*?\*/")


def without_leading_comments(text: str) -> str:
    """The text from its first word on."""
    position = 0
    while match := _COMMENT.match(text, position):
        position = match.end()
    return text[position:]
