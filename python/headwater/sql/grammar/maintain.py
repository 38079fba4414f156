"""The grammar of ``MAINTAIN TABLE <table>`` with, in any order, ``ONLY (<action>, …)``, ``BUDGET <number> <unit>``,
``CHOOSE CLUSTERING``, ``FORCE`` and ``DRY RUN``; and of ``ALTER TABLE <table> {ENABLE | DISABLE | INHERIT} PREDICTIVE
OPTIMIZATION``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.sql.grammar.shared import DRY_RUN, Parsed, longest_table_after, not_parsed, tables_after
from headwater.sql.tokens import Pattern, Token, closing, text_of

#: What maintenance does, under the words that begin the statement that does the same by itself.
ACTIONS = ("OPTIMIZE", "REORG", "ANALYZE", "CHECKPOINT", "REFRESH INDEX", "VACUUM", "CLUSTER BY")
#: The units of BUDGET, in seconds.
_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
_MAINTAIN = Pattern("MAINTAIN TABLE")
_CHOOSE = Pattern("CHOOSE CLUSTERING")
_ONLY = Pattern(r"ONLY \(")
_MAINTAIN_IS = (
    "MAINTAIN TABLE t [ONLY (action, …)] [BUDGET n {SECONDS | MINUTES | HOURS}] [CHOOSE CLUSTERING] [FORCE] [DRY RUN]"
)
_ALTER = Pattern("ALTER TABLE")
_MARK = Pattern("(ENABLE|DISABLE|INHERIT) PREDICTIVE OPTIMIZATION")


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    for table, rest in tables_after(_ALTER, found, text):
        if len(rest) in set(_MARK.ends(rest)):
            mark = rest[0].value.upper()
            return Parsed("alter_table_predictive_optimization", table, {"mark": None if mark == "INHERIT" else mark})
    if (begun := longest_table_after(_MAINTAIN, found, text)) is None:
        return None
    table, rest = begun
    command = "maintain_table"
    arguments: dict[str, Any] = {}
    while rest:
        name: str | None = None
        value: Any = True
        taken = 0
        if rest[0].is_word_of("FORCE"):
            name, taken = "force", 1
        elif (chooses := _CHOOSE.match(rest)) is not None:
            name, taken = "choosesClustering", chooses.end
        elif (dry := DRY_RUN.match(rest)) is not None and command == "maintain_table":
            command, rest = "maintain_table_dry_run", rest[dry.end :]
            continue
        elif _ONLY.match(rest) is not None:
            taken = closing(rest, 1) or 0
            if taken:
                name, value = "only", _actions(text, rest, taken)
        elif rest[0].is_word_of("BUDGET") and (budget := _budget(rest)) is not None:
            name, value, taken = "budget", text_of(text, rest, 1, budget[0]), budget[0] + 1
            if name not in arguments:
                arguments["unit"] = budget[1]
        if name is None or name in arguments:
            why = "is there twice" if name in arguments else "is not part of it"
            raise not_parsed(text, f"It is written {_MAINTAIN_IS}: '{text_of(text, rest, 0, len(rest))}' {why}")
        arguments[name] = value
        rest = rest[taken:]
    return Parsed(command, table, arguments)


def _budget(rest: Sequence[Token]) -> tuple[int, int] | None:
    """The token of BUDGET's unit, and the seconds that it has; None if there is no number or no unit."""
    for at in range(2, len(rest)):
        unit = rest[at].value.upper().removesuffix("S")
        if rest[at].is_word and unit in _UNITS:
            return at, _UNITS[unit]
    return None


def _actions(text: str, rest: Sequence[Token], end: int) -> list[str]:
    """The actions of ONLY."""
    named = [" ".join(part.split()).upper() for part in text_of(text, rest, 2, end - 1).split(",")]
    for name in named:
        if name not in ACTIONS:
            raise not_parsed(text, f"ONLY takes {', '.join(ACTIONS)}, separated by commas, not '{name}'")
    return named
