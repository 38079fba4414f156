"""Warnings that are logged once while the process lives: a damaged file, a setting without effect."""

from __future__ import annotations

import logging

_LOG = logging.getLogger(__name__)
_WARNED: set[tuple[str, str]] = set()


def warn_once(key: str, message: str) -> None:
    """Log a warning, once for each key and text."""
    if (key, message) not in _WARNED:
        _WARNED.add((key, message))
        _LOG.warning("%s", message)
