"""The Python API of Delta tables, as people know it from ``delta.tables``.

Owns the builders and nothing of what they do: every method writes one SQL statement and has the session run it, so
that classic PySpark and Spark Connect share one implementation, and a client of a server needs this package and PySpark
alone. Promise: what a method does, returns and raises is what its statement does, returns and raises; there is no JVM
in this package.
"""

from __future__ import annotations

from headwater.tables.columns import IdentityGenerator
from headwater.tables.creating import DeltaColumnBuilder, DeltaTableBuilder
from headwater.tables.errors import DeltaTableError
from headwater.tables.maintenance import DeltaOptimizeBuilder
from headwater.tables.merging import DeltaMergeBuilder
from headwater.tables.table import DeltaTable

__all__ = [
    "DeltaColumnBuilder",
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "DeltaTableError",
    "IdentityGenerator",
]
