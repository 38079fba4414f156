"""Hooks of commits, as the settings of Spark's start bring them to the handler."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.sparks.running import Driver, wait_for

pytestmark = pytest.mark.spark


def test_a_table_names_hooks(classic: Driver, tmp_path: Path) -> None:
    table, heard = f"delta.`{tmp_path}/t`", tmp_path / "heard"
    answers = classic.run(
        "all_sql",
        texts=[
            f"CREATE TABLE {table} (k INT) USING delta TBLPROPERTIES ('headwater.hooks' = 'checks')",
            f"INSERT INTO {table} VALUES (1), (2)",
            f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id FROM range(3)",
            f"SELECT count(*) FROM {table}",
            # Settings of the start alone name functions.
            "SET spark.headwater.hook.late.before = os:abort",
            f"ALTER TABLE {table} SET TBLPROPERTIES ('headwater.hooks' = 'late')",
            f"ALTER TABLE {table} UNSET TBLPROPERTIES ('headwater.hooks')",
            f"INSERT INTO {table} VALUES (3), (4), (5)",
        ],
    )
    assert [answer.get("condition") for answer in answers] == [
        *(None, None, "HEADWATER_COMMIT_REFUSED", None, None, "HEADWATER_COMMIT_HOOK_NOT_USABLE", None, None)
    ]
    assert "3 rows, and 1 actions" in answers[2]["text"]
    assert answers[3]["rows"] == [[2]]
    wait_for(lambda: heard.exists() and heard.read_text().count("\n") >= 2, 30, "the hook hears of two commits")
    assert heard.read_text().splitlines() == ["0 CREATE TABLE", "1 WRITE"]
