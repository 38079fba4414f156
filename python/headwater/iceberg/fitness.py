"""Which data files Iceberg's readers can read without a rewrite.

Owns the mark of files that keep to Iceberg compatibility, and the choice of those without it. Follows the protocol's
chapter "IcebergCompatV2": such files have the partition columns, field ids, and times as whole microseconds.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.log.snapshot import Snapshot

#: A tag of files that keep to Iceberg compatibility V2 or V3, by which other writers find the files to rewrite.
TAG = "ICEBERG_COMPAT_VERSION"


def unfit(snapshot: Snapshot, version: int = 2) -> pa.Array:
    """Which live files, in the order of ``snapshot.files``, do not keep to a version of Iceberg compatibility for all
    that the log says, or have deleted rows.
    """
    files = snapshot.select(["tags", "deletion_vector"])
    found = pc.map_lookup(files["tags"].combine_chunks(), pa.scalar(TAG, pa.string()), "first")
    untagged = pc.fill_null(pc.not_equal(found, str(version)), True)
    marked = pc.is_valid(files["deletion_vector"].combine_chunks())
    return pc.or_(untagged, marked)
