"""Keys in a table that the peer writes and changes too: it keeps them, they follow, and they keep it from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

#: What the peer does to the table, in this order.
STATEMENTS = (
    "INSERT INTO {t} VALUES (1, 'x', 5), (1, 'x', 6)",
    "ALTER TABLE {t} ADD COLUMNS (more INT)",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '2')",
    "ALTER TABLE {t} RENAME COLUMN a TO a2",
    "MERGE INTO {t} USING (SELECT 1 AS k) ON a2 = k WHEN MATCHED AND up = 5 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET up = 7",
    "UPDATE {t} SET more = 3",
    "OPTIMIZE {t}",
    "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (more > 0)",
    "ALTER TABLE {t} CLUSTER BY (b)",
)
KEYS = [
    "  CONSTRAINT pk PRIMARY KEY (a2, b) NOT ENFORCED RELY,",
    "  CONSTRAINT fk FOREIGN KEY (up, b) REFERENCES {t} (a, b) NOT ENFORCED)",
]


def _keys(spark: Any, table: str) -> list[str]:
    text = spark.sql(f"SHOW CREATE TABLE {table}").first()[0]
    return [line for line in text.split("\n") if " KEY " in line]


@pytest.mark.spark
@pytest.mark.soak
def test_the_peer_keeps_keys(spark: Any, peer: Any, tmp_path: Path) -> None:
    t, copy = f"delta.`{tmp_path}/t`", f"delta.`{tmp_path}/copy`"
    full = f"spark_catalog.{t}"
    spark.sql(
        f"CREATE TABLE {t} (a INT, b STRING, up INT, CONSTRAINT pk PRIMARY KEY (a, b) RELY, "
        f"CONSTRAINT fk FOREIGN KEY (up, b) REFERENCES {t}) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    for statement in STATEMENTS:
        peer.sql(statement.format(t=t))
    wanted = [key.format(t=full) for key in KEYS]
    assert _keys(spark, t) == wanted
    assert peer.table(tmp_path / "t") == [[1, "x", 7, 3]]
    # It writes beside them what ours writes, after a change of ours as well.
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN up TO above")
    peer.sql(f"INSERT INTO {t} VALUES (2, 'y', 1, 1)")
    wanted[1] = wanted[1].replace("(up, b)", "(above, b)")
    assert _keys(spark, t) == wanted
    peer.sql(f"CREATE TABLE {copy} SHALLOW CLONE {t}")
    assert _keys(spark, copy) == wanted
    # What it may do to a column of a key, as it knows no keys, ends the key and nothing else.
    peer.sql(f"ALTER TABLE {t} DROP COLUMN above")
    assert _keys(spark, t) == [wanted[0].removesuffix(",") + ")"]
