"""What fails on an executor fails the statement with the error a user gets in one process, and leaves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.dml.checking import Refused
from support.dml.exactness import actions, strays

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
SOURCE = "(SELECT /*+ REPARTITION(2) */ CAST(id AS INT) AS k, CAST(id AS INT) AS v FROM range(30))"
FAILURES = {
    "a CHECK constraint": (
        "UPDATE {t} SET v = -1 WHERE k = 17", "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", ["v >= 0", "-1"],
    ),
    "NOT NULL": ("INSERT INTO {t} SELECT nullif(id, 3), 1 FROM range(9)", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED", ["k"]),
    "a null key": (
        "INSERT INTO {t} WITH (idCols = 'k') SELECT nullif(id, 3) AS k, 1 AS v FROM range(9)",
        "HEADWATER_UPSERT_NULL_KEY", ["k = null"],
    ),
    "two events of a key": (
        "INSERT INTO {t} WITH (idCols = 'k', sequenceBy = 'v DIV 99') SELECT k % 4 AS k, v FROM {source}",
        "HEADWATER_UPSERT_EQUAL_SEQUENCES", ["k = ", "v = "],
    ),
    "several matches": (
        "MERGE INTO {t} t USING (SELECT k % 4 AS k, v FROM {source}) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 0",
        "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", ["{t}"],
    ),
    "a cast": (
        "MERGE INTO {t} t USING {source} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = CAST(concat('x', s.v) AS INT)",
        "CAST_INVALID_INPUT", ["'x"],
    ),
    "Spark's own": ("DELETE FROM {t} WHERE v / (k - 17) > 1", "DIVIDE_BY_ZERO", []),
}  # fmt: skip


@pytest.fixture
def filled(cluster: Any, table: str) -> str:
    name = f"delta.`{table}`"
    cluster.sql(
        f"CREATE TABLE {name} (k INT NOT NULL, v INT) USING delta TBLPROPERTIES ("
        "'delta.constraints.positive' = 'v >= 0', 'delta.enableChangeDataFeed' = 'true')"
    )
    cluster.sql(f"INSERT INTO {name} SELECT /*+ REPARTITION(3) */ id, id FROM range(20)")
    return table


#: The others' conditions come about in the same places of the same tasks.
IN_BRIEF = {"a CHECK constraint", "a null key", "several matches", "a cast"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in IN_BRIEF else pytest.mark.soak) for case in FAILURES]
)
def test_errors_of_rows(cluster: Any, filled: str, case: str) -> None:
    statement, condition, words = FAILURES[case]
    name = f"delta.`{filled}`"
    with pytest.raises(Refused) as refused:
        cluster.sql(statement.format(t=name, source=SOURCE))
    text = str(refused.value)
    assert refused.value.condition == condition, text
    assert all(word.format(t=filled) in text for word in words), text
    assert not any(word in text for word in ("Traceback", "py4j", "hw_", "Job aborted", "ClassNotFound")), text
    assert max(version for version, _ in actions(Path(filled))) == 1
    cluster.wait_for(lambda: not strays(Path(filled)), "files of failed tasks to be deleted")


def test_a_function_that_fails(cluster: Any, filled: str) -> None:
    with pytest.raises(Refused) as refused:
        cluster.sql(f"UPDATE delta.`{filled}` SET v = CAST(broken(k) AS INT) WHERE k = 17")
    assert "broken for 17" in str(refused.value)
    assert max(version for version, _ in actions(Path(filled))) == 1


def test_a_damaged_vector(cluster: Any, table: str) -> None:
    name = f"delta.`{table}`"
    cluster.sql(
        f"CREATE TABLE {name} USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') "
        "AS SELECT id FROM range(50)"
    )
    cluster.sql(f"DELETE FROM {name} WHERE id % 3 = 0")
    [vectors] = Path(table).glob("*.bin")
    content = vectors.read_bytes()
    vectors.write_bytes(content[:-8] + bytes(byte ^ 255 for byte in content[-8:]))
    with pytest.raises(Refused) as refused:
        cluster.sql(f"UPDATE {name} SET id = id + 1 WHERE id % 5 = 0")
    assert refused.value.condition == "DELTA_DELETION_VECTOR_INVALID", str(refused.value)
    assert vectors.name in str(refused.value)


def test_a_relative_path_is_the_drivers(cluster: Any) -> None:
    """Executors run in folders of their own."""
    cluster.sql("CREATE TABLE delta.`relative/t` USING delta AS SELECT /*+ REPARTITION(2) */ id FROM range(10)")
    cluster.sql("UPDATE delta.`relative/t` SET id = id + 100 WHERE id < 5")
    assert cluster.sql("SELECT sum(id) FROM delta.`relative/t`") == [[545]]
    assert Path(cluster.home, "relative", "t", "_delta_log").is_dir()
