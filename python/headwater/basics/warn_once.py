"""Warnings that a process logs once: a damaged file, a setting without effect. After ten thousand others, a warning may
be repeated.
"""

from __future__ import annotations

import logging

from headwater.basics.recent import Recent

_LOG = logging.getLogger(__name__)
_WARNED: Recent[tuple[str, str], None] = Recent()


def warn_once(key: str, message: str) -> None:
    """Log a warning, once for each key and text."""
    if (key, message) not in _WARNED:
        _WARNED[key, message] = None
        _LOG.warning("%s", message)
