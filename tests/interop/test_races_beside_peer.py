"""Writers that lose to ALTER TABLE of the other engine, ours and the peer's: what goes on there goes on here."""

from __future__ import annotations

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


@pytest.mark.spark
@pytest.mark.slow
def test_what_goes_on_in_the_peer_goes_on_here(spark: Any, peer: Any, ours: Any, tmp_path: Path) -> None:
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
    for engine, losing, winning in (("peer", peer.sql, here), ("ours", here, peer.sql)):
        went_on[engine] = set()
        gate = Gate(losing, folder)
        for number, (winner, loser) in enumerate(CASES):
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
    assert went_on["ours"] == set(range(len(CASES)))
    assert len(went_on["peer"]) >= 4
