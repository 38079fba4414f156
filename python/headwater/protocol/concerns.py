"""Which writers a change of a table's definition concerns: they cannot commit after it."""

from __future__ import annotations

from enum import Enum


class Concern(Enum):
    """Which writers cannot commit after a change."""

    NOBODY = "no writer"
    NUMBERING = "writers that gave values to identity columns"
    NEW_FILES = "writers that add files"
    UNPROVEN_FILES = "writers that add files whose statistics do not prove the condition"
    REMOVED_ROWS = "writers that remove rows"
    MARKED_ROWS = "writers that mark rows deleted"
    READERS = "writers that read rows"
    EVERYBODY = "all writers"
