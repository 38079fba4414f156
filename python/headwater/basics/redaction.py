"""Credentials in texts.

Owns what a text must not show: the login in front of a URI's host. Errors and the log go through here.
"""

from __future__ import annotations

import logging
import re

#: ``scheme://user:password@``. A host with its port and a path with ``@`` in it are none, nor is a user alone, as the
#: container of ``abfss://container@account``. A password may hold slashes, which people forget to encode.
_LOGIN = re.compile(r"(?<=://)[^/@:\s]+:(?!\d+/)[^@\s]+@")


def without_credentials(text: str) -> str:
    """The text with the credentials in its URIs replaced."""
    return _LOGIN.sub("***@", text) if "@" in text else text


class RedactingFormatter(logging.Formatter):
    """Formats log lines, tracebacks included, without credentials."""

    def format(self, record: logging.LogRecord) -> str:
        return without_credentials(super().format(record))
