"""Which writers a change of a table's definition concerns: they cannot commit after it."""

from __future__ import annotations

from enum import Enum


class Concern(Enum):
    """Which writers cannot commit after a change."""

    NOBODY = "nobody"
    NUMBERING = "who gave values to identity columns"
    NEW_FILES = "who adds files"
    UNPROVEN_FILES = "who adds files whose statistics do not prove the condition"
    REMOVED_ROWS = "who removes rows"
    MARKED_ROWS = "who marks rows deleted"
    READERS = "who read rows"
    EVERYBODY = "everybody"
