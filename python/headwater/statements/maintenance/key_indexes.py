"""Builds the entries of indexes.

To be written.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.bridge.statement import Statement
from headwater.key_index.definition import KeyIndex
from headwater.log.snapshot import Snapshot


class Built(NamedTuple):
    """What a build did: data files and their rows that have entries now, and the bytes of these."""

    files: int
    rows: int
    size: int


def build(statement: Statement, snapshot: Snapshot, index: KeyIndex) -> Built:
    """Make the entries of the files that have none, by jobs of the statement, and merge small segments."""
    raise NotImplementedError
