"""The case of changelogs: an update in order, beside the peer's change feed with a window that pairs its rows."""

from __future__ import annotations

from collections.abc import Iterator

from bench.cases import Against, Bench, Case
from bench.sparks import PEER

#: Rows that an UPDATE changes: each is two rows of a changelog.
_UPDATED = 500_000
_NAME = "changelog"
_PAIRED = (
    "SELECT *, row_number() OVER (PARTITION BY _commit_version, id ORDER BY _change_type DESC) AS place "
    "FROM table_changes_by_path('{path}', 1, 1) ORDER BY _commit_version, id, place"
)


def _prepare(bench: Bench, side: str) -> None:
    path = bench.path(_NAME, side)
    if path.exists():
        return
    spark = bench.spark(side)
    spark.run(
        f"CREATE TABLE delta.`{path}` USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS "
        f"SELECT id, concat('name ', id) AS name, id / 4 AS amount FROM range(0, {_UPDATED}, 1, 4)"
    )
    spark.run(f"UPDATE delta.`{path}` SET amount = amount + 1")


def _sorted(bench: Bench, side: str, number: int) -> float:
    path = bench.path(_NAME, side)
    ours = f"SELECT * FROM table_changelog_by_path('{path}', 1, 1) ORDER BY _commit_version, _ordinal"
    sql = _PAIRED.format(path=path) if side == PEER else ours
    return float(bench.spark(side).call("scan", sql=sql)["seconds"])


def cases() -> Iterator[Case]:
    """The case."""
    title = f"{2 * _UPDATED:,} changed rows"
    yield Case("changelog", f"{title}, pairs in order", (Against(PEER, ratio=0.7),), _sorted, 5, _prepare)
