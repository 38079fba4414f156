"""What no commit may hold, whatever its statement.

Owns the checks of file actions that a reader would otherwise stumble over. Follows the protocol's chapters "Action
Reconciliation" and "Add File and Remove File".
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.errors import HeadwaterError
from headwater.log.files import FileKey
from headwater.protocol.actions import AddFile, Metadata, RemoveFile
from headwater.protocol.types import parse_schema
from headwater.transaction.conflicts import file_key


def check_unique(removes: Sequence[RemoveFile], adds: Sequence[AddFile]) -> None:
    """Refuse a commit with two actions about one logical file: which of them counts would depend on the reader."""
    seen: set[FileKey] = set()
    for kind, files in (("remove", removes), ("add", adds)):
        for file in files:
            key = file_key(file.path, file.deletion_vector)
            if key in seen:
                raise HeadwaterError("DELTA_DUPLICATE_ACTIONS_FOUND", {"actionType": kind, "path": file.path})
            seen.add(key)


def check_partitions(adds: Sequence[AddFile], metadata: Metadata) -> None:
    """Refuse files that lack a partition value or have one too many: no reader could make sense of them."""
    if not adds:
        return
    schema = parse_schema(metadata.schema_string)
    columns = [schema.find(name) for name in metadata.partition_columns]
    wanted = {column.physical_name for column in columns if column is not None}
    for file in adds:
        if file.partition_values.keys() != wanted:
            found, expected = (", ".join(sorted(names)) or "nothing" for names in (file.partition_values, wanted))
            reason = f"the file {file.path} has partition values of {found} where the table wants {expected}"
            raise HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": reason})
