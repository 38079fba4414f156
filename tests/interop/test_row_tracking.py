"""Row tracking beside others: the peer reads our row ids as we do and goes on, we read its; delta-rs reads the rows."""

from __future__ import annotations

import deltalake
import pytest

from support.requests import log_of

COLUMNS = "k, v, _metadata.row_id AS row_id, _metadata.row_commit_version AS version"
CREATE = (
    "CREATE TABLE {t} (k INT, v INT) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true', "
    "'delta.enableDeletionVectors' = '%s', 'delta.columnMapping.mode' = '%s', 'delta.checkpointInterval' = '3')"
)
OURS = [
    "INSERT INTO {t} SELECT CAST(id AS INT), 0 FROM range(0, 20, 1, 2)",
    "UPDATE {t} SET v = 1 WHERE k % 4 = 0",
    "DELETE FROM {t} WHERE k % 5 = 3",
    "MERGE INTO {t} AS t USING (SELECT CAST(id AS INT) AS k FROM range(16, 24)) AS s ON t.k = s.k "
    "WHEN MATCHED THEN UPDATE SET v = 2 WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 3)",
]
THEIRS = [
    "INSERT INTO {t} VALUES (100, 9), (101, 9)",
    "UPDATE {t} SET v = v + 10 WHERE k % 3 = 0",
    "DELETE FROM {t} WHERE k = 100",
    "MERGE INTO {t} AS t USING (SELECT CAST(id AS INT) AS k FROM range(22, 26)) AS s ON t.k = s.k "
    "WHEN MATCHED THEN UPDATE SET v = 20 WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 30)",
]


@pytest.mark.parametrize(
    ("vectors", "mapping"), [("true", "name"), pytest.param("false", "none", marks=pytest.mark.soak)]
)
def test_both_see_and_keep_the_same_ids(spark, peer, ours, tmp_path, vectors, mapping):
    path = tmp_path / "t"
    table = f"delta.`{path}`"

    def ids():
        rows = ours(path, COLUMNS)
        assert rows == peer.table(path, COLUMNS)
        return {row[0]: row[2] for row in rows}

    spark.sql((CREATE % (vectors, mapping)).replace("{t}", table))
    for statement in OURS:
        spark.sql(statement.replace("{t}", table))
    before = ids()
    for statement in THEIRS:
        peer.sql(statement.replace("{t}", table))
    between = ids()
    spark.sql(OURS[1].replace("{t}", table))
    after = ids()
    for earlier, later in ((before, between), (between, after)):
        lived = {k for k in earlier.keys() & later.keys() if k % 5 != 3}  # those are deleted and inserted again
        assert {k: earlier[k] for k in lived} == {k: later[k] for k in lived}
    # The peer has no tag in the commit of a plain INSERT.
    commits = [log_of(path, version)[0]["commitInfo"] for version in range(10)]
    tags = [info.get("tags") for info in commits if "Headwater" in info["engineInfo"]]
    assert tags == [{"delta.rowTracking.preserved": "true"}] * 6, tags
    if mapping == "none":
        assert sorted(deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pydict()["k"]) == sorted(after)


def test_the_peer_goes_on_after_we_enabled_it(spark, peer, ours, tmp_path):
    path = tmp_path / "t"
    table = f"delta.`{path}`"
    peer.sql(f"CREATE TABLE {table} (k INT, v INT) USING delta")
    for statement in OURS[:3]:
        peer.sql(statement.replace("{t}", table))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    before = ours(path, COLUMNS)
    assert before == peer.table(path, COLUMNS)
    peer.sql(f"UPDATE {table} SET v = 7 WHERE k = 4")
    assert ours(path, COLUMNS) == peer.table(path, COLUMNS)
    assert {row[0]: row[2] for row in ours(path, COLUMNS)} == {row[0]: row[2] for row in before}
