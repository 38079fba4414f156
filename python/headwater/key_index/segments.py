"""The files that hold the entries of an index.

To be written.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.key_index.definition import KeyIndex
from headwater.log.snapshot import Snapshot


class Coverage(NamedTuple):
    """How much of a version an index covers.

    :param files: data files with entries; ``all_files``: data files of the version.
    :param size: bytes of the index's files; ``segments``: how many segments they are.
    """

    files: int
    all_files: int
    size: int
    segments: int


def coverage(snapshot: Snapshot, index: KeyIndex) -> Coverage:
    raise NotImplementedError


def delete_index(snapshot: Snapshot, name: str) -> None:
    """Delete all files of an index."""
    raise NotImplementedError
