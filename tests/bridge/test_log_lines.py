"""What an ordinary mistake leaves in the driver's log: next to nothing, and no stack trace."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.spark

MISTAKES = {
    "a broken constraint": ("INSERT INTO {} SELECT id - 5, 'x', 1 FROM range(0, 10, 1, 2)", "DELTA_VIOLATE_CONSTRAINT"),
    "a null": ("INSERT INTO {} SELECT IF(id = 7, null, id), 'x', 1 FROM range(0, 10, 1, 2)", "DELTA_NOT_NULL"),
    "an update": ("UPDATE {} SET a = -a WHERE a > 1", "DELTA_VIOLATE_CONSTRAINT"),
    "a merge": (
        "MERGE INTO {} t USING (SELECT -1L AS a) s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, 'm')",
        "DELTA_VIOLATE_CONSTRAINT",
    ),
    "too many columns": ("INSERT INTO {} VALUES (1, 'x', 2, 3)", ""),
    "a column that is not there": ("UPDATE {} SET z = 1", "UNRESOLVED_COLUMN"),
    "a table that is not there": ("DELETE FROM {}_gone", "TABLE_OR_VIEW_NOT_FOUND"),
}


@pytest.fixture(scope="module")
def table(classic: Any) -> Iterator[str]:
    """A table with a constraint."""
    name = f"rules_{uuid.uuid4().hex[:8]}"
    classic.rows(
        f"CREATE TABLE {name} (a BIGINT NOT NULL, b STRING, p INT, CONSTRAINT positive CHECK (a >= 0)) USING delta "
        "PARTITIONED BY (p)"
    )
    classic.rows(f"INSERT INTO {name} SELECT id, 'x', 1 FROM range(0, 10, 1, 2)")
    yield name
    classic.rows(f"DROP TABLE {name}")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_lines(classic: Any, table: str, mistake: str) -> None:
    text, condition = MISTAKES[mistake]
    before = classic.rows(f"SELECT count(*), sum(a) FROM {table}")
    said = len(classic.log)
    found = classic.sql(text.format(table))
    assert found.get("condition"), found
    assert found["condition"].startswith(condition), found
    lines = [line for line in classic.log[said:].splitlines() if not line.startswith("{")]  # PySpark's own
    assert not [line for line in lines if line.startswith(("\tat ", "Caused by: "))], "\n".join(lines)
    assert len(lines) <= 8, "\n".join(lines)
    assert classic.rows(f"SELECT count(*), sum(a) FROM {table}") == before
