"""What a table must do wherever it lies, by Spark's own SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def live_there(run: Callable[[str], Any], place: str) -> None:
    """Create a table in a directory, change it, and read it, its past and its changes.

    :param run: a statement's rows.
    """
    table = f"delta.`{place}/t`"
    assert run(
        f"CREATE TABLE {table} (id INT, name STRING, part INT) USING delta PARTITIONED BY (part) "
        "TBLPROPERTIES (delta.enableDeletionVectors = true, delta.enableChangeDataFeed = true, "
        "delta.checkpointInterval = 3)"
    ) == []  # fmt: skip
    assert run(f"INSERT INTO {table} SELECT id, 'n' || id, id % 2 FROM range(0, 100, 1, 1)") == []
    assert run(f"INSERT INTO {table} VALUES (100, 'last', 0)") == []
    assert run(f"UPDATE {table} SET name = 'new' WHERE id < 10") == [[10]]
    assert run(f"DELETE FROM {table} WHERE id % 10 = 0") == [[11]]
    assert run(
        f"MERGE INTO {table} t USING (SELECT 1 AS id UNION ALL SELECT 1000) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = 'merged' WHEN NOT MATCHED THEN INSERT (id, name, part) VALUES (id, 'm', 1)"
    ) == [[2, 1, 0, 1]]  # fmt: skip
    assert run(f"SELECT count(*), sum(id), count_if(name = 'new') FROM {table}") == [[91, 5500, 8]]
    assert run(f"SELECT name FROM {table} WHERE id = 1") == [["merged"]]
    assert run(f"SELECT count(*) FROM {table} VERSION AS OF 2") == [[101]]
    assert run(f"SELECT count(*) FROM table_changes_by_path('{place}/t', 4, 4)") == [[11]]
    for name in (table, f"'{place}/t'"):
        assert [row[0] for row in run(f"DESCRIBE HISTORY {name}")] == [5, 4, 3, 2, 1, 0]
        assert f"{place}/t" in run(f"DESCRIBE DETAIL {name}")[0]
