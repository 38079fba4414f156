"""Writers that lose to ALTER TABLE and to each other: they go on, run again, or say what changed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.definition.requirements import protocol_for
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import Metadata
from headwater.protocol.types import StructType, schema_string
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction
from support.gates import Gate, register

COLUMNS = "id INT, n INT"
INSERT = "INSERT INTO {t} SELECT gate(id), 1 FROM VALUES (7) AS v(id)"
OVERWRITE = "INSERT OVERWRITE {t} SELECT gate(id), 1 FROM VALUES (7) AS v(id)"
UPDATE = "UPDATE {t} SET n = gate(n + 1) WHERE id = 2"
DELETE = "DELETE FROM {t} WHERE id IN (SELECT gate(id) FROM VALUES (2) AS v(id))"
BASE = [(1, 0), (2, 0)]
INSERTED, UPDATED, DELETED = [*BASE, (7, 1)], [(1, 0), (2, 1)], [(1, 0)]


def setting(name: str, value: str) -> str:
    return f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{name}' = '{value}')"


def dropped(metadata: Metadata, schema: StructType) -> Metadata:
    return replace(metadata, schema_string=schema_string(StructType(tuple(f for f in schema if f.name != "n"))))


def constrained(metadata: Metadata, schema: StructType) -> Metadata:
    return replace(metadata, configuration={**metadata.configuration, "delta.constraints.few": "id < 7"})


def loosely(metadata: Metadata, schema: StructType) -> Metadata:
    return replace(metadata, configuration={**metadata.configuration, "delta.constraints.few": "id < 100 AND n >= 0"})


#: Of each case the winner, the losers' statement, and how it ends: runs and rows, or a word of its error.
CASES: list[tuple[Any, str, Any]] = [
    (["COMMENT ON TABLE {t} IS 'text'", "ALTER TABLE {t} ADD COLUMNS (new STRING)"], INSERT, (1, INSERTED)),
    (["ALTER TABLE {t} ADD COLUMNS (new STRING)", setting("mine", "1")], UPDATE, (1, UPDATED)),
    ([setting("delta.enableInCommitTimestamps", "true")], INSERT, (1, INSERTED)),
    ([setting("delta.columnMapping.mode", "name"), "INSERT INTO {t} VALUES (3, 3)"], INSERT, (1, [*INSERTED, (3, 3)])),
    ([setting("delta.enableDeletionVectors", "true")], DELETE, (1, DELETED)),
    ([setting("delta.checkpointPolicy", "v2")], OVERWRITE, (1, [(7, 1)])),
    ([setting("delta.appendOnly", "true")], INSERT, (1, INSERTED)),
    ([setting("delta.appendOnly", "true")], OVERWRITE, "DELTA_CANNOT_MODIFY_APPEND_ONLY"),
    ([setting("delta.enableChangeDataFeed", "true")], UPDATE, (2, UPDATED)),
    (["UPDATE {t} SET n = 5 WHERE id = 1"], OVERWRITE, (2, [(7, 1)])),
    (dropped, INSERT, "the column n was dropped"),
    (loosely, INSERT, (1, INSERTED)),
    (constrained, INSERT, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
]


@pytest.fixture(scope="module")
def gate(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Gate:
    folder = tmp_path_factory.mktemp("gate")
    register(spark, folder)
    return Gate(spark.sql, folder)


def change(path: str, changed: Any) -> None:
    """A change of metadata that no statement makes, or not this way."""
    snapshot = load_snapshot(path, LocalStore())
    txn = Transaction(path, snapshot.store, snapshot)
    metadata = changed(snapshot.metadata, snapshot.schema)
    txn.update_protocol(protocol_for(metadata, snapshot.protocol))
    txn.update_metadata(metadata)
    txn.commit(Provenance("ALTER"))


def test_each_goes_on_runs_again_or_says_why(spark: SparkSession, rows: Any, tmp_path: Any, gate: Gate) -> None:
    ends = []
    for number, (winner, loser, _) in enumerate(CASES):
        path = str(tmp_path / f"t{number}")
        t = f"delta.`{path}`"
        mapped = "'delta.columnMapping.mode' = 'name'" if winner is dropped else "'a' = 'b'"
        rows(f"CREATE TABLE {t} ({COLUMNS}) USING delta TBLPROPERTIES ({mapped})")
        rows(f"INSERT INTO {t} SELECT * FROM VALUES (1, 0), (2, 0)")

        def win(path: str = path, winner: Any = winner, t: str = t) -> None:
            if callable(winner):
                change(path, winner)
            else:
                for statement in winner:
                    spark.sql(statement.format(t=t))

        try:
            runs = gate.lose(loser.format(t=t), win)
            ends.append((runs, rows(f"SELECT id, n FROM {t}", ordered=False)))
        except Exception as error:
            ends.append(str(error))
    for end, (winner, loser, expected) in zip(ends, CASES, strict=True):
        if isinstance(expected, str):
            assert expected in end, (winner, loser)
        else:
            assert end == (expected[0], sorted(expected[1], key=repr)), (winner, loser)
    changes = f"SELECT _change_type, id, n FROM table_changes_by_path('{tmp_path}/t8', 3)"
    assert rows(changes, ordered=False) == [("update_postimage", 2, 1), ("update_preimage", 2, 0)]


def test_identity_values_are_given_once(rows: Any, database: str, gate: Gate) -> None:
    rows("CREATE TABLE t (i BIGINT GENERATED ALWAYS AS IDENTITY, id INT) USING delta")
    insert = "INSERT INTO t (id) SELECT gate(id) FROM VALUES (7) AS v(id)"
    assert gate.lose(insert, lambda: rows("INSERT INTO t (id) VALUES (1)")) == 2
    assert rows("SELECT i, id FROM t ORDER BY i") == [(1, 1), (2, 7)]
    assert gate.lose(insert, lambda: rows("COMMENT ON TABLE t IS 'text'")) == 1
    assert rows("SELECT count(*), count(DISTINCT i), max(i) FROM t") == [(3, 3, 3)]


def test_an_overwrite_of_what_it_reads_is_never_run_again(rows: Any, database: str, gate: Gate) -> None:
    """Its rows come from the version before the other's update."""
    rows("CREATE TABLE t (id INT, n INT) USING delta")
    rows("INSERT INTO t VALUES (1, 0), (2, 0)")
    overwrite = "INSERT OVERWRITE t SELECT gate(id), n FROM t WHERE id = 2"
    with pytest.raises(Exception, match=re.escape("DELTA_CONCURRENT")):
        gate.lose(overwrite, lambda: rows("UPDATE t SET n = 5 WHERE id = 2"))
    assert rows("SELECT * FROM t ORDER BY id") == [(1, 0), (2, 5)]
