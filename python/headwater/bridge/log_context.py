"""The context of lines in the handler's log: which statement and table they are about.

Owns the table and version of each thread's call: lines for who debugs name them, whoever wrote the line. Imports
nothing, as the log is there before all else.
"""

from __future__ import annotations

import logging
import threading

_thread = threading.local()


def about() -> str:
    """``/path/of/table@version: `` of this thread's call, or nothing."""
    return getattr(_thread, "about", "")


def set_about(text: str) -> None:
    """Say what this thread's lines are about from here on."""
    _thread.about = text


class AboutTable(logging.Filter):
    """Gives each record ``about``. Lines above DEBUG say themselves what they are about."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.about = about() if record.levelno <= logging.DEBUG else ""
        return True
