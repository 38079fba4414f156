"""The Python API of Delta tables: ``DeltaTable`` and its builders, compatible with ``delta.tables``.

Every method writes one SQL statement and runs it in the session. So classic PySpark and Spark Connect share one
implementation, and a Spark Connect client needs only this package and PySpark. Promise: a method does, returns and
raises what its statement does, returns and raises. No class of Headwater's JVM side is called from here.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys

if importlib.util.find_spec("pyspark") is None:
    raise ModuleNotFoundError(
        f"headwater.tables needs PySpark, which {sys.executable} does not have. Install it: "
        f"{shlex.quote(sys.executable)} -m pip install 'headwater[spark]', or 'headwater[client]' for a client of "
        "Spark Connect alone.",
        name="pyspark",
    )

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
