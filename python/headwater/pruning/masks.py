"""Masks over the files of a snapshot: one answer for each file, or one for all of them.

Owns the logic of "may a row of this file do that?". A mask is ``True`` or ``False`` where every file has the same
answer, ``MAYBE`` if nothing is known of any file, else an Arrow boolean array with nulls where nothing is known of
a file. Promise: combining masks never turns "not known" into "no".
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: ``True``, ``False``, ``MAYBE``, or a boolean array as long as the snapshot's files.
Mask = Any
MAYBE = None
_UNKNOWN = pa.scalar(None, pa.bool_())


def conjunction(left: Mask, right: Mask) -> Mask:
    """Both."""
    if left is False or right is False:
        return False
    if left is True:
        return right
    if right is True:
        return left
    if left is MAYBE and right is MAYBE:
        return MAYBE
    return pc.and_kleene(_UNKNOWN if left is MAYBE else left, _UNKNOWN if right is MAYBE else right)


def disjunction(left: Mask, right: Mask) -> Mask:
    """Either."""
    if left is True or right is True:
        return True
    if left is False:
        return right
    if right is False:
        return left
    if left is MAYBE and right is MAYBE:
        return MAYBE
    return pc.or_kleene(_UNKNOWN if left is MAYBE else left, _UNKNOWN if right is MAYBE else right)


def inverse(mask: Mask) -> Mask:
    """Not so; what was not known stays so."""
    if mask is MAYBE:
        return MAYBE
    return not mask if isinstance(mask, bool) else pc.invert(mask)


def settle(mask: Mask, length: int) -> pa.BooleanArray:
    """The mask as an array of ``length`` without nulls, "not known" as true."""
    if mask is MAYBE or isinstance(mask, bool):
        return pa.repeat(pa.scalar(mask is not False), length)
    mask = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
    return mask.fill_null(True) if mask.null_count else mask
