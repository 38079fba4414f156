"""What a statement about rows did, as a sentence on the terminal of Spark's shell.

The shell itself prints an answer's columns, which programs read: a number, or for a write nothing. Promise: whatever
becomes of the terminal, the statement has succeeded.
"""

from __future__ import annotations

import contextlib

from headwater.basics import start_settings
from headwater.basics.amounts import effects
from headwater.basics.printable import printable
from headwater.bridge.statement import Statement
from headwater.transaction.commit_info import Provenance

#: The operations that the history calls so. A stream, or maintenance after a commit, would write into the prompt.
_ABOUT_ROWS = frozenset({"DELETE", "MERGE", "UPDATE", "WRITE"})
#: The terminal that started Spark, of which this process has only the name: Spark's side reads its standard output.
TERMINAL = "/dev/tty"


def say_what_it_did(statement: Statement, provenance: Provenance, version: int) -> None:
    """Write the sentence, if Spark was started for a person on a terminal."""
    if provenance.operation not in _ABOUT_ROWS or start_settings.under(start_settings.PROGRESS).get("") != "true":
        return
    did = ", ".join([f"version {version}", *effects(provenance.metrics)])
    with contextlib.suppress(OSError), open(TERMINAL, "w", encoding="utf-8", errors="replace") as terminal:
        terminal.write(f"{printable(statement.title)}: {did}\n")
