"""Deletion vectors inside their descriptors, as some writers store small ones."""

from __future__ import annotations

from pyroaring import BitMap64

from headwater.log.deletion_vectors import INLINE, serialize, z85_encode
from headwater.protocol.actions import DeletionVector


def inline(positions: BitMap64) -> DeletionVector:
    """A descriptor that holds the vector itself."""
    data = serialize(positions)
    text = z85_encode(data + b"\0" * (-len(data) % 4))
    return DeletionVector(INLINE, text, len(data), len(positions))
