"""The grammar of transactions over several statements.

Owns ``BEGIN TRANSACTION``, or ``START TRANSACTION``, with an isolation level or not; ``COMMIT`` and ``ROLLBACK``, with
the word ``TRANSACTION`` or ``WORK`` after them or not; and ``BEGIN ATOMIC … END``, a script that is one transaction.
Spark's parser knows none of them: it takes ``BEGIN … END`` alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sql.grammar.shared import Parsed
from headwater.sql.tokens import Pattern, Token

_STATEMENTS = {
    "begin_transaction": Pattern("(BEGIN|START) TRANSACTION [ISOLATION LEVEL (SNAPSHOT|SERIALIZABLE)]"),
    "commit_transaction": Pattern("COMMIT [TRANSACTION|WORK]"),
    "rollback_transaction": Pattern("ROLLBACK [TRANSACTION|WORK]"),
}
_ATOMIC = Pattern("BEGIN ATOMIC")
#: No call has this name: Spark's side makes several calls for the command.
ATOMIC = "atomic"


def parse(found: Sequence[Token], text: str) -> Parsed | None:
    for command, pattern in _STATEMENTS.items():
        if len(found) in set(pattern.ends(found)):
            serializable = any(token.is_word_of("SERIALIZABLE") for token in found)
            return Parsed(command, "", {"isolation": "serializable"} if serializable else {})
    if _ATOMIC.match(found) is not None and found[-1].is_word_of("END"):
        script = f"BEGIN{text[found[1].end : found[-1].end]}"
        return Parsed(ATOMIC, "", {"script": script})
    return None
