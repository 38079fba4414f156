"""A streaming query's checkpoint and table go from one implementation to the other, and each batch is there once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.feeds import Feed, rows_of

STREAM = """
rows = spark.readStream.schema("id LONG, v STRING").option("maxFilesPerTrigger", 1).json({source!r})
rows = rows.dropDuplicates(["id"]) if {stateful} else rows
writer = rows.writeStream.format("delta").option("checkpointLocation", {checkpoint!r}).trigger(availableNow=True)
query = writer.start({table!r})
query.awaitTermination()
result = str(query.id)
"""


def history(table: Path) -> list[Any]:
    """Of each commit what the query says of it."""
    found = []
    for commit in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        info = next(a["commitInfo"] for a in actions if "commitInfo" in a)
        (txn,) = (a["txn"] for a in actions if "txn" in a)
        parameters = info["operationParameters"]
        metrics = {k: v for k, v in info["operationMetrics"].items() if k != "numOutputBytes"}
        found.append((info["operation"], parameters, metrics, info["isBlindAppend"], txn["appId"], txn["version"]))
    return found


@pytest.mark.parametrize("stateful", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_checkpoint_goes_to_the_other_and_back(
    peer: Any, spark: Any, ours: Any, tmp_path: Path, stateful: bool
) -> None:
    feed, table = Feed(spark, tmp_path / "feed"), tmp_path / "table"
    text = STREAM.format(source=str(feed.source), checkpoint=str(feed.checkpoint), table=str(table), stateful=stateful)

    def we() -> str:
        names = {"spark": spark}
        exec(text, names)
        return str(names["result"])

    queries = []
    for number, run in enumerate((we, lambda: peer.run(text), we, lambda: peer.run(text))):
        feed.put(rows_of(10 * number, 10 * number + 1))
        if number:
            # The last batch of the other was committed, and its checkpoint does not say so.
            feed.forget_last_batch()
        queries.append(run())
    assert len(set(queries)) == 1
    expected = [[n, f"v{n}"] for n in (0, 1, 10, 11, 20, 21, 30, 31)]
    assert ours(table) == sorted(expected, key=repr)
    assert peer.table(table) == sorted(expected, key=repr)
    commits = history(table)
    assert [version for *_, version in commits] == [0, 1, 2, 3]
    first, second, third, _ = commits
    assert (first[0], first[3:5]) == (second[0], second[3:5])
    assert {**first[1], "epochId": "1"} == second[1]
    assert second[2].keys() == third[2].keys()
    if not stateful:
        assert third[2] == second[2]
