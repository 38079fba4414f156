"""What a transaction over two tables costs beside two statements alone."""

from __future__ import annotations

from collections.abc import Iterator

from bench.cases import Against, Bench, Case

#: The same statements, each committed on its own.
_ALONE = "each alone"


def _prepare(bench: Bench, side: str) -> None:
    for name in ("debits", "credits"):
        spark = bench.spark(side)
        spark.run(f"CREATE TABLE delta.`{bench.path(name, side)}` (id BIGINT, amount DOUBLE) USING delta")
        spark.run(f"INSERT INTO delta.`{bench.path(name, side)}` VALUES (0, 1.5)")


def _two_inserts(bench: Bench, side: str, number: int) -> float:
    spark = bench.spark(side)
    inserts = [f"INSERT INTO delta.`{bench.path(name, side)}` VALUES ({number}, 1.5)" for name in ("debits", "credits")]
    statements = inserts if side == _ALONE else ["BEGIN TRANSACTION", *inserts, "COMMIT"]
    return sum(map(spark.run, statements))


def cases() -> Iterator[Case]:
    """Every case of this module."""
    against = (Against(_ALONE, 1.3),)
    title = "a transaction of one-row INSERTs into two tables"
    yield Case("transaction", title, against, _two_inserts, 15, _prepare, warm_up=10)
