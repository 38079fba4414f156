"""The grammar of transactions over several statements.

Owns ``BEGIN TRANSACTION``, or ``START TRANSACTION``, with an isolation level or not; ``COMMIT`` and ``ROLLBACK``, with
the word ``TRANSACTION`` or ``WORK`` after them or not; and ``BEGIN ATOMIC … END``, a script that is one transaction.
Spark's parser knows none of them: it takes ``BEGIN … END`` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.sql.tokens import Pattern, Token

_STATEMENTS = {
    "begin_transaction": Pattern("(BEGIN|START) TRANSACTION [ISOLATION LEVEL (SNAPSHOT|SERIALIZABLE)]"),
    "commit_transaction": Pattern("COMMIT [TRANSACTION|WORK]"),
    "rollback_transaction": Pattern("ROLLBACK [TRANSACTION|WORK]"),
}
_ATOMIC = Pattern("BEGIN ATOMIC")


def parse(found: Sequence[Token], text: str) -> dict[str, Any] | None:
    """The command of a text; None for any other."""
    for command, pattern in _STATEMENTS.items():
        if len(found) in set(pattern.ends(found)):
            isolation = (
                {"isolation": "serializable"} if any(token.is_word_of("SERIALIZABLE") for token in found) else {}
            )
            return {"command": command, "table": "", "arguments": isolation}
    if _ATOMIC.match(found) is not None and found[-1].is_word_of("END"):
        script = f"BEGIN{text[found[1].end : found[-1].end]}"
        return {"command": "atomic", "table": "", "arguments": {"script": script}}
    return None
