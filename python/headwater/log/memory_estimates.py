"""The memory that a snapshot uses, in estimates that cost next to nothing.

Owns :class:`Holding`, by which the parts of a snapshot say what they keep, so that the snapshot cache can be bounded.
Versions of a table share most of their parts; a holding names its part, which counts once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: Bytes that a block of files takes beside the values of its columns, and each column derived from it: objects of Arrow
#: and Python. Of a small table they are most of it (``python -m bench.many_tables``).
BLOCK_BYTES, DERIVED_BYTES = 16 << 10, 5 << 10


class Holding(NamedTuple):
    """A part of a snapshot, the bytes it takes, how many files it keeps open, and how many bytes of these are copies in
    the temporary folder, which have no name any more.
    """

    part: Any
    bytes: int
    open_files: int = 0
    copied_bytes: int = 0
