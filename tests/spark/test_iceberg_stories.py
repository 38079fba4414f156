"""Tables that are widened, replaced, renamed, restored and cleaned under the eyes of a reader of Iceberg: pyiceberg.

Iceberg's own runtime reads such stories in ``tests/interop/test_iceberg_runtime.py``. The same few every time;
``HEADWATER_TEST_EXAMPLES`` asks for new ones of so many statements.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from support.iceberg_story import SETTINGS, Story, Where, listed, tell
from support.iceberg_tables import read_by_pyiceberg

pytestmark = pytest.mark.spark
EXAMPLES = os.environ.get("HEADWATER_TEST_EXAMPLES")


def by_pyiceberg(path: Path, where: Where | None) -> list[list[Any]]:
    from pyiceberg.expressions import AlwaysTrue, EqualTo, IsNull

    if where is None:
        condition = AlwaysTrue()
    else:
        condition = IsNull(where.name) if where.number is None else EqualTo(where.name, where.value)
    return listed(read_by_pyiceberg(path, row_filter=condition).to_pylist())


@pytest.mark.random
@pytest.mark.parametrize("seed", [17, 21, 25] if EXAMPLES is None else [None])
def test_pyiceberg_reads_what_the_table_has(spark: Any, settings: Any, tmp_path: Path, seed: int | None) -> None:
    def ours(path: Path, where: Where | None) -> list[list[Any]]:
        text = f"SELECT * FROM delta.`{path}`" + ("" if where is None else f" WHERE {where.sql}")
        return listed(spark.sql(text).toArrow().to_pylist())

    seed = random.randrange(2**32) if seed is None else seed
    with settings(SETTINGS):
        tell(Story(spark.sql, tmp_path / "t", seed, by_pyiceberg, ours), int(EXAMPLES or 10))
