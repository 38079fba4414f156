"""The changelog: the change feed as rows that a reader applies one by one.

Owns the kinds of rows, as Flink and Paimon name them, and the order of a commit's rows. Promise: applied in the order
of (version, ordinal), each row of an old state removes a row that is there, and a preimage that is paired stands
directly before its postimage. An ordinal is computed from a row's file and position alone, so that no rows have to be
sorted or counted to get one.

An ordinal is ``class * 2^60 + number of the file in its commit * 2^32 + position in the file``. The classes, in order:

0. rows that were deleted,
1. preimages whose postimages are not known,
2. pairs: each preimage, then its postimage, whose ordinal is one greater,
3. the same for pairs that are found by keys: the ordinal is ``class * 2^60`` and twice the rest of the preimage's,
4. postimages whose preimages are not known,
5. rows that were inserted.

So a key that a commit deletes and inserts is deleted first. Pairs are known in change data files that have the tag
:data:`PAIRED_TAG`: each of their preimages is directly followed by its postimage.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from headwater.basics.errors import HeadwaterError
from headwater.basics.suggestions import nearest
from headwater.protocol.types import StructType

#: The tag of a change data file whose pre- and postimages are side by side, and its value.
PAIRED_TAG, PAIRED = "headwater.pairedImages", "true"

#: The columns of the change feed after the table's own.
CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
#: The columns of a changelog after those of the change feed.
ROW_KIND, ROW_KIND_CODE, ORDINAL = "_row_kind", "_row_kind_code", "_ordinal"

#: How far a class, and the number of a file, are shifted in an ordinal.
CLASS_SHIFT, FILE_SHIFT = 60, 32
#: The class of pairs that are found by keys.
PAIRED_BY_KEYS = 3
#: The most versions that a warning lists.
_MOST_VERSIONS = 5


class RowKind(Enum):
    """What a row of a changelog does. ``change_type``: what the change feed calls it.

    ``unpaired`` is the class of such a row, and ``paired`` that of one in a file of pairs.
    """

    INSERT = ("+I", 0, "insert", 5, 5)
    UPDATE_BEFORE = ("-U", 1, "update_preimage", 1, 2)
    UPDATE_AFTER = ("+U", 2, "update_postimage", 4, 2)
    DELETE = ("-D", 3, "delete", 0, 0)

    def __init__(self, text: str, code: int, change_type: str, unpaired: int, paired: int) -> None:
        self.text = text
        self.code = code
        self.change_type = change_type
        self.unpaired = unpaired
        self.paired = paired

    def row_class(self, *, is_paired: bool) -> int:
        """The class of such a row, shifted to its place in an ordinal."""
        return (self.paired if is_paired else self.unpaired) << CLASS_SHIFT


def file_order(number: int) -> int:
    """The part of its rows' ordinals that a file's number in its commit decides."""
    return number << FILE_SHIFT


def check_names(schema: StructType, table: str) -> None:
    """That a table has no column with the name of one of the changelog's own.

    :raises HeadwaterError: ``HEADWATER_CHANGELOG_COLUMN_TAKEN``.
    """
    for name in (ROW_KIND, ROW_KIND_CODE, ORDINAL):
        taken = schema.find(name)
        if taken is not None:
            raise HeadwaterError("HEADWATER_CHANGELOG_COLUMN_TAKEN", {"tableName": table, "columnName": taken.name})


def key_columns(keys: Sequence[str], schema: StructType, table: str) -> list[str]:
    """Key columns by the names that the table has them.

    :raises HeadwaterError: ``HEADWATER_KEY_COLUMN_NOT_FOUND``, ``HEADWATER_NO_KEY_COLUMNS``.
    """
    if not keys:
        raise HeadwaterError("HEADWATER_NO_KEY_COLUMNS", {"tableName": table})
    found = []
    for key in keys:
        field = schema.find(key)
        if field is None:
            names = nearest(key, schema.names, most=3) or schema.names
            raise HeadwaterError(
                "HEADWATER_KEY_COLUMN_NOT_FOUND",
                {"columnName": key, "tableName": table, "suggestion": ", ".join(names)},
            )
        found.append(field.name)
    return found


def unpaired_advice(table: str, versions: Collection[int]) -> str:
    """What to say of updates that a changelog cannot give row by row."""
    shown = ", ".join(map(str, sorted(versions)[:_MOST_VERSIONS])) + (", ..." if len(versions) > _MOST_VERSIONS else "")
    return (
        f"{table}: the change data files of version {shown} do not say which preimage and which postimage are one "
        "row: the changelog has all preimages of such a commit before its postimages. Name the key columns, as in "
        "table_changelog('t', 1, 'id') or option('idCols', 'id'), to have them in pairs"
    )
