"""Writers that lose to ALTER TABLE of the other engine, ours and the peer's: what goes on there goes on here."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.gates import Gate, register


def setting(name: str, value: str) -> str:
    return f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{name}' = '{value}')"


INSERT = "INSERT INTO {t} SELECT gate(id), 1 FROM VALUES (7) AS v(id)"
UPDATE = "UPDATE {t} SET n = gate(n + 1) WHERE id = 2"
#: Winner and loser. The peer lets only those of the properties go on that concern the format.
CASES = [
    ("COMMENT ON TABLE {t} IS 'text'", INSERT),
    ("ALTER TABLE {t} ADD COLUMNS (new STRING)", UPDATE),
    (setting("delta.enableInCommitTimestamps", "true"), INSERT),
    (setting("delta.enableDeletionVectors", "true"), UPDATE),
    (setting("delta.columnMapping.mode", "name"), INSERT),
    (setting("delta.checkpointPolicy", "v2"), UPDATE),
]


# With both of one engine, all of them are in tests/spark/test_races_with_alter.py.
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("often", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["ours", "both"])
def test_what_goes_on_in_the_peer_goes_on_here(spark: Any, peer: Any, ours: Any, tmp_path: Path, often: bool) -> None:
    folder = tmp_path / "gate"
    folder.mkdir()
    register(spark, folder)
    register_there = (
        f"from support.gates import register; from pathlib import Path; register(spark, Path({str(folder)!r}))"
    )
    peer.run(f"{register_there}; result = 0")

    def here(text: str) -> Any:
        return spark.sql(text).collect()

    went_on: dict[str, set[int]] = {}
    cases = CASES if often else CASES[1::2]
    for engine, losing, winning in (("ours", here, peer.sql), ("peer", peer.sql, here))[: 1 + often]:
        went_on[engine] = set()
        gate = Gate(losing, folder)
        for number, (winner, loser) in enumerate(cases):
            path = tmp_path / f"{engine}{number}"
            t = f"delta.`{path}`"
            here(f"CREATE TABLE {t} (id INT, n INT) USING delta")
            here(f"INSERT INTO {t} VALUES (1, 0), (2, 0)")
            try:
                runs = gate.lose(loser.format(t=t), partial(winning, winner.format(t=t)))
            except Exception:
                runs = 0
            rows = sorted(ours(path, "id, n"))
            expected = [[1, 0], [2, 0], [7, 1]] if loser == INSERT else [[1, 0], [2, 1]]
            assert [list(row) for row in rows] == (expected if runs else [[1, 0], [2, 0]]), (engine, winner, loser)
            if engine == "ours":
                assert peer.table(path, "id, n") == rows
            if runs == 1 or runs and engine == "peer":  # which never runs a statement again
                went_on[engine].add(number)
    assert went_on["ours"] == set(range(len(cases)))
    assert not often or len(went_on["peer"]) >= 4


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak  # the usual run has curves beside DML of one engine, in tests/spark/test_layouts.py
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "copies"])
@pytest.mark.parametrize("engine", ["ours", "peer"])
def test_curves_of_one_beside_dml_of_the_other(
    spark: Any, peer: Any, ours: Any, tmp_path: Path, engine: str, vectors: bool
) -> None:
    """Ours never fails. The peer may, as it does not run again; what it was told of is there."""
    path = tmp_path / "t"
    t = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {t} (a INT, b INT) USING delta CLUSTER BY (a, b) "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(vectors).lower()}')"
    )
    spark.sql(f"INSERT INTO {t} SELECT id, 0 FROM range(50)")

    def here(text: str) -> Any:
        return spark.newSession().sql(text).collect()

    arranges, changes = (here, peer.sql) if engine == "ours" else (peer.sql, here)
    done, failed = threading.Event(), []

    def arrange() -> None:
        while not done.is_set():
            try:
                arranges(f"OPTIMIZE {t} FULL")
            except Exception as error:
                if engine == "ours" or "Concurrent" not in str(error):
                    failed.append(error)
                    return

    thread = threading.Thread(target=arrange)
    thread.start()
    counted = 0
    try:
        for number in range(5):
            try:
                changes(f"UPDATE {t} SET b = b + 1 WHERE a % 5 = {number}")
                counted += 10
                changes(f"INSERT INTO {t} VALUES ({100 + number}, 0)")
            except Exception as error:
                if engine != "ours" or "Concurrent" not in str(error):
                    raise
    finally:
        done.set()
        thread.join()
    assert not failed, failed
    mine, theirs = ours(path, "sum(b)"), peer.table(path, "sum(b)")
    assert mine == theirs == [[counted]]
