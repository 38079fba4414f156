"""Random statements beside a stream that is restarted, and killed around its writes: each change once, in commit order.

A stream reads the rows or the change feed of a table and appends them to another one. A plain model of a few lines says
which rows there must be. ``HEADWATER_TEST_SECONDS`` asks for new stories for so long; a failure prints the seed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

SECONDS = os.environ.get("HEADWATER_TEST_SECONDS")


class Story:
    """A table, its model, and what a stream over it must have brought."""

    def __init__(self, spark: Any, home: str, chance: random.Random, feed: bool) -> None:
        self.spark, self.chance, self.feed = spark, chance, feed
        self.source, self.sink, self.checkpoint = (f"{home}/{name}" for name in ("source", "sink", "checkpoint"))
        self.rows: dict[int, int] = {}
        self.expected: list[tuple[Any, ...]] = []
        self.version = 0
        self.next_id = 0
        self.columns = 0
        vectors = str(chance.random() < 0.5).lower()
        spark.sql(
            f"CREATE TABLE delta.`{self.source}` (id INT, v INT) USING delta TBLPROPERTIES "
            f"('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
        )
        spark.sql(f"CREATE TABLE delta.`{self.sink}` (id INT, v INT, kind STRING, version BIGINT) USING delta")

    def sql(self, text: str) -> None:
        self.spark.sql(text.format(t=f"delta.`{self.source}`"))
        self.version += 1

    def note(self, kind: str, number: int, value: int) -> None:
        self.expected.append((number, value, kind, self.version + 1))

    def insert(self) -> None:
        count, files = self.chance.randint(1, 6), self.chance.randint(1, 3)
        first, self.next_id = self.next_id, self.next_id + count
        for number in range(first, self.next_id):
            self.rows[number] = number
            self.note("insert", number, number)
        self.sql(f"INSERT INTO {{t}} (id, v) SELECT INT(id), INT(id) FROM range({first}, {self.next_id}, 1, {files})")

    def delete(self) -> None:
        rest = self.chance.randint(0, 4)
        gone = [number for number in self.rows if number % 5 == rest]
        if gone:
            for number in gone:
                self.note("delete", number, self.rows.pop(number))
            self.sql(f"DELETE FROM {{t}} WHERE id % 5 = {rest}")

    def update(self) -> None:
        rest = self.chance.randint(0, 3)
        changed = [number for number in self.rows if number % 4 == rest]
        if changed:
            for number in changed:
                self.note("update_preimage", number, self.rows[number])
                self.rows[number] += 100
                self.note("update_postimage", number, self.rows[number])
            self.sql(f"UPDATE {{t}} SET v = v + 100 WHERE id % 4 = {rest}")

    def rewrite(self) -> None:
        """Compaction, as far as a stream sees it."""
        rows = self.spark.read.format("delta").load(self.source).coalesce(1)
        writer = rows.write.format("delta").mode("overwrite").option("dataChange", "false")
        writer.save(self.source)
        self.version += 1

    def describe(self) -> None:
        self.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('note' = '{self.chance.random()}')")

    def widen(self) -> None:
        self.columns += 1
        self.sql(f"ALTER TABLE {{t}} ADD COLUMN extra{self.columns} INT")

    def step(self) -> None:
        kinds = [self.insert, self.insert, self.rewrite, self.describe, self.widen]
        if self.feed:
            kinds += [self.delete, self.update, self.update]
        self.chance.choice(kinds)()

    def run(self, *, may_die: bool = True) -> None:
        """Run the stream to the end of what there is, or to where it is killed: before or after a write."""
        dies = self.chance.choice([None, None, "before", "after"]) if may_die else None
        at = self.chance.randint(0, 2)
        seen: list[int] = []

        def write(rows: Any, batch: int) -> None:
            seen.append(batch)
            if dies == "before" and len(seen) > at:
                raise RuntimeError("killed")
            if not self.feed:
                rows = rows.selectExpr("id", "v", "'insert' AS kind", "bigint(null) AS version")
            else:
                rows = rows.selectExpr("id", "v", "_change_type AS kind", "_commit_version AS version")
            writer = rows.write.format("delta").mode("append")
            writer.option("txnAppId", self.checkpoint).option("txnVersion", batch).save(self.sink)
            if dies == "after" and len(seen) > at:
                raise RuntimeError("killed")

        options = {"readChangeFeed": str(self.feed).lower(), "startingVersion": "0"}
        options["maxFilesPerTrigger"] = str(self.chance.choice([1, 2, 1000]))
        if self.chance.random() < 0.3:
            options["wholeCommits"] = "true"
        reader = self.spark.readStream.format("delta").options(**options)
        query = (
            reader.load(self.source)
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:
            if "killed" not in str(error):
                raise

    def check(self) -> None:
        found = [tuple(row) for row in self.spark.read.format("delta").load(self.sink).collect()]
        expected = self.expected
        if not self.feed:
            expected = [(number, value, kind, None) for number, value, kind, _ in expected]
        assert sorted(found, key=repr) == sorted(expected, key=repr)


def _seeds() -> Iterator[int]:
    """Two stories that are always the same, or new ones for so many seconds."""
    if SECONDS is None:
        yield 3
        return
    began = time.monotonic()
    while time.monotonic() - began < float(SECONDS):
        yield random.randrange(1 << 30)


@pytest.mark.random
@pytest.mark.parametrize("feed", [True, False], ids=["changes", "rows"])
def test_each_change_once(spark, tmp_path, feed):
    for seed in _seeds():
        print(f"seed {seed}")
        story = Story(spark, str(tmp_path / str(seed)), random.Random(seed), feed)
        for _ in range(3 if SECONDS is None else 6):
            for _ in range(story.chance.randint(1, 4)):
                story.step()
            story.run()
        # A run that nothing kills brings the rest.
        story.run(may_die=False)
        story.check()
