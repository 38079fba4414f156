"""The grammar of ``FSCK REPAIR TABLE <table> [DRY RUN]``. Other systems also have modes that read files or repair the
log: a statement that names one is refused, and does not run without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sql.grammar.shared import DRY_RUN, Parsed, longest_table_after, not_parsed
from headwater.sql.tokens import Pattern, Token, text_of

_FSCK = Pattern("FSCK REPAIR TABLE")


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    if (begun := longest_table_after(_FSCK, found, text)) is None:
        return None
    table, rest = begun
    dry = DRY_RUN.match(rest)
    if rest and (dry is None or dry.end < len(rest)):
        why = f"'{text_of(text, rest, 0, len(rest))}' is not part of it"
        raise not_parsed(text, f"FSCK is written FSCK REPAIR TABLE t [DRY RUN]: {why}")
    return Parsed("fsck", table, {"dryRun": True} if rest else {})
