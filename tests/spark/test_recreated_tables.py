"""A table that is deleted and made anew by another program, under frames that were analysed and snapshots kept.

Who asks by path gets the new table and nothing of the old; who holds a frame of the old table is told.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.covering("file")


@pytest.fixture
def anew(tmp_path: Path) -> Any:
    """``anew(ids)``: the table at ``path`` gone, and another in its place, of a commit for each id."""
    deltalake = pytest.importorskip("deltalake")
    import pyarrow as pa

    def make(ids: list[int]) -> str:
        path = str(tmp_path / "t")
        shutil.rmtree(path, ignore_errors=True)
        for number in ids:
            deltalake.write_deltalake(path, pa.table({"id": pa.array([number], pa.int64())}), mode="append")
        return path

    return make


OLD = [1, 2, 3]
#: Fewer commits, as many, more.
NEW = [[7], [7, 8, 9], [7, 8, 9, 10, 11]]


@pytest.mark.parametrize("ids", NEW, ids=["shorter", "as long", "longer"])
def test_by_path_there_is_only_the_new_table(spark: Any, rows: Any, anew: Any, ids: list[int]) -> None:
    name = f"delta.`{anew(OLD)}`"
    assert rows(f"SELECT * FROM {name}", ordered=False) == [(n,) for n in OLD]
    assert rows(f"SELECT * FROM {name} VERSION AS OF 1", ordered=False) == [(1,), (2,)]
    anew(ids)
    assert rows(f"SELECT * FROM {name}", ordered=False) == sorted([(n,) for n in ids], key=repr)
    assert rows(f"SELECT count(*), min(id) FROM {name}") == [(len(ids), 7)]
    assert rows(f"SELECT * FROM {name} VERSION AS OF 0") == [(7,)]
    assert len(rows(f"DESCRIBE HISTORY {name}")) == len(ids)
    rows(f"UPDATE {name} SET id = id + 100 WHERE id = 7")
    rows(f"INSERT INTO {name} VALUES (1)")
    expected = [1, 107, *ids[1:]]
    assert rows(f"SELECT * FROM {name}", ordered=False) == sorted([(n,) for n in expected], key=repr)


@pytest.mark.parametrize("ids", NEW, ids=["shorter", "as long", "longer"])
def test_a_frame_of_the_old_table_says_so(spark: Any, fails: Any, anew: Any, ids: list[int]) -> None:
    path = anew(OLD)
    frames = [
        spark.read.format("delta").load(path),
        spark.read.format("delta").load(path).where("id > 0").groupBy("id").count(),
        spark.sql(f"SELECT count(*) FROM delta.`{path}`"),
    ]
    run_before = spark.read.format("delta").load(path)
    assert len(run_before.collect()) == 3
    anew(ids)
    for frame in frames:
        with fails("DELTA_TABLE_ID_MISMATCH", path, "deleted and re-created"):
            frame.collect()
    # A frame that has run keeps its plan, and the plan its files, as Spark has it for any table.
    with pytest.raises(Exception, match=r"FAILED_READ_FILE.*parquet"):
        run_before.collect()
    assert len(spark.read.format("delta").load(path).collect()) == len(ids)


@pytest.mark.parametrize("ids", NEW, ids=["shorter", "as long", "longer"])
def test_a_frame_of_an_old_version_says_so(spark: Any, fails: Any, anew: Any, ids: list[int]) -> None:
    """Whether the new table has a version of that number or not."""
    path = anew(OLD)
    frame = spark.read.format("delta").option("versionAsOf", 1).load(path)
    anew(ids)
    with fails("DELTA_TABLE_ID_MISMATCH" if len(ids) > 1 else "DELTA_VERSION_NOT_FOUND", path if len(ids) > 1 else "1"):
        frame.collect()


def test_a_table_that_is_gone_says_so(spark: Any, fails: Any, anew: Any) -> None:
    path = anew(OLD)
    frame = spark.read.format("delta").load(path)
    assert frame.count() == 3
    shutil.rmtree(path)
    with fails("DELTA_TABLE_NOT_FOUND", path):
        frame.count()
