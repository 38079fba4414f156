"""Columns renamed, dropped, moved, added again and widened, by us and by the peer: both read the same rows at every
version and write on, and delta-rs reads what it can."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

CREATE = (
    "CREATE TABLE {t} (k INT, v SMALLINT, s STRUCT<x: INT, y: STRING>, l ARRAY<INT>, c STRING, p DATE) USING delta "
    "PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}', 'delta.enableTypeWidening' = 'true', "
    "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '5')"
)
INSERT = "INSERT INTO {t} VALUES (%d, %d, named_struct('x', 3, 'y', 'z'), array(4), 'c', DATE'2024-05-06')"
#: Statements both engines know.
SHAPING = [
    INSERT % (1, 10),
    INSERT % (2, 20),
    "ALTER TABLE {t} RENAME COLUMN v TO `new v`",
    "ALTER TABLE {t} RENAME COLUMN s.x TO xx",
    "ALTER TABLE {t} RENAME COLUMN p TO part",
    "ALTER TABLE {t} DROP COLUMN c",
    "ALTER TABLE {t} ADD COLUMNS (c INT AFTER k, s.w STRING)",
    "ALTER TABLE {t} ALTER COLUMN `new v` TYPE INT",
    "ALTER TABLE {t} ALTER COLUMN s.xx TYPE BIGINT",
    "ALTER TABLE {t} ALTER COLUMN l.element TYPE BIGINT",
    "ALTER TABLE {t} ALTER COLUMN `new v` FIRST",
]
#: What each engine does to what the other has shaped, and the rows of ``WHOLE`` afterwards.
GOING_ON = [
    "INSERT INTO {t} VALUES (70000, 3, 5, named_struct('xx', 5000000000L, 'y', 'z', 'w', 'w'), array(6000000000L), "
    "DATE'2024-05-07')",
    "UPDATE {t} SET s.xx = s.xx + 1, c = 7 WHERE `new v` = 10",
    "DELETE FROM {t} WHERE k = 2 AND part = DATE'2024-05-06'",
]
WHOLE = "`new v`, k, c, s, l, part"
ROWS = [
    [10, 1, 7, [4, "z", None], [4], "2024-05-06"],
    [70000, 3, 5, [5000000000, "z", "w"], [6000000000], "2024-05-07"],
]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("shaper", "mode"), [("ours", "id"), pytest.param("peer", "name", marks=pytest.mark.soak)])
def test_each_goes_on_with_what_the_other_has_shaped(
    shaper: str, mode: str, spark: Any, peer: Any, ours: Any, to_plain: Any, tmp_path: Path
) -> None:
    path = tmp_path / "t"

    def here(text: str) -> list[Any]:
        return [to_plain(row) for row in spark.sql(text).collect()]

    first, other = (here, peer.sql) if shaper == "ours" else (peer.sql, here)
    first(CREATE.replace("{t}", f"delta.`{path}`").replace("{mode}", mode))
    for statement in SHAPING:
        first(statement.replace("{t}", f"delta.`{path}`"))
    for statement in GOING_ON:
        other(statement.replace("{t}", f"delta.`{path}`"))
    assert ours(path, WHOLE) == peer.table(path, WHOLE) == ROWS
    first(f"UPDATE delta.`{path}` SET c = 8 WHERE s.xx > 100")
    assert ours(path) == peer.table(path)
    assert ours(path, "c") == [[7], [8]]
    query = f"SELECT * FROM delta.`{path}@v8` ORDER BY k"
    assert here(query) == peer.sql(query)
    newest = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first()[0]
    changes = f"SELECT * FROM table_changes_by_path('{path}', {newest - 3}, {newest})"
    found = sorted(here(changes), key=repr)
    assert found
    assert found == sorted(peer.sql(changes), key=repr)


@pytest.mark.spark
def test_delta_rs_reads_what_it_can(spark: Any, tmp_path: Path) -> None:
    """It knows mapping by name, and not type widening."""
    path = tmp_path / "t"
    spark.sql(
        CREATE.replace("{t}", f"delta.`{path}`")
        .replace("{mode}", "name")
        .replace("'true', 'delta.enableCh", "'false', 'delta.enableCh")
    )
    for statement in SHAPING:
        if " TYPE " not in statement:
            spark.sql(statement.replace("{t}", f"delta.`{path}`"))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE k = 2")
    read = (
        deltalake.QueryBuilder()
        .register("t", deltalake.DeltaTable(str(path)))
        .execute('SELECT "new v", k, c, s, part FROM t')
        .read_all()
    )
    assert pa.table(read).to_pylist() == [
        {"new v": 10, "k": 1, "c": None, "s": {"xx": 3, "y": "z", "w": None}, "part": date(2024, 5, 6)}
    ]
