"""The grammar of ``GENERATE <mode> FOR TABLE <table>``."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sql.grammar.shared import Parsed, whole_table
from headwater.sql.tokens import Pattern, Token

_GENERATE = Pattern("GENERATE <name> FOR TABLE")


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    if (begin := _GENERATE.match(found)) is None:
        return None
    return Parsed("generate", whole_table(found[begin.end :], text), {"mode": found[1].value})
