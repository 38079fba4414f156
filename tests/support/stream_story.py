"""Random statements, of one engine or several, beside a stream that is restarted, and killed around its writes.

A stream reads the rows or the change feed of a table and appends them to another one. A plain model of a few lines says
which rows there must be, and of which commit each is: all are there once, in the order of the commits.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Runs a statement in an engine.
Sql = Callable[[str], Any]
#: What a stream ends with on purpose, so that it goes on with the next start.
_RESTARTS = (
    "DELTA_STREAMING_METADATA_EVOLUTION",
    "DELTA_SCHEMA_CHANGED",
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE",
    "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
)


#: What changes files and no row.
_REWRITES = ("OPTIMIZE {t}", "OPTIMIZE {t}", "OPTIMIZE {t} ZORDER BY (id)", "REORG TABLE {t} APPLY (PURGE)")
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


class Story:
    """A table, its model, and what a stream over it must have brought.

    :param feed: whether the stream reads changes; one that reads rows passes over commits that remove some.
    :param others: engines that write to the table beside ours; each may optimize it.
    """

    def __init__(self, spark: Any, home: Path, chance: random.Random, feed: bool, others: Sequence[Sql] = ()) -> None:
        self.spark, self.chance, self.feed, self.others = spark, chance, feed, others
        self.source, self.sink, self.checkpoint = (str(home / name) for name in ("source", "sink", "checkpoint"))
        self.rows: dict[int, int] = {}
        #: Number, value, kind and the commit that brings it.
        self.expected: list[tuple[int, int, str, int]] = []
        self.next_id = 0
        self.columns: list[str] = []
        self.named = 0
        self.began = False
        #: The last batch whose files may be gone.
        self.vacuumed = -1
        self.from_start = chance.random() < 0.5
        self.in_batches = chance.random() < 0.5
        self.tracks = chance.random() < 0.5
        vectors = str(chance.random() < 0.5).lower()
        mapping = "name" if self.tracks else "none"
        spark.sql(
            f"CREATE TABLE delta.`{self.source}` (id INT, v INT) USING delta TBLPROPERTIES "
            f"('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}', "
            f"'delta.columnMapping.mode' = '{mapping}')"
        )
        spark.sql(
            f"CREATE TABLE delta.`{self.sink}` (id INT, v INT, kind STRING, version BIGINT) USING delta "
            "TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
        )
        self.insert()

    @property
    def version(self) -> int:
        log = Path(self.source, "_delta_log")
        return max(int(file.stem) for file in log.glob("*.json") if file.stem.isdecimal())

    def sql(self, text: str) -> None:
        engines: list[Sql] = [self.spark.sql, *self.others]
        self.chance.choice(engines)(text.format(t=f"delta.`{self.source}`"))

    def note(self, kind: str, number: int, value: int) -> None:
        if self.feed or kind == "insert":
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
        """The same rows in other files: compaction, layout, purging, or a write that says so."""
        if self.chance.random() < 0.8:
            self.sql(self.chance.choice(_REWRITES))
            return
        rows = self.spark.read.format("delta").load(self.source).coalesce(1)
        rows.write.format("delta").mode("overwrite").option("dataChange", "false").save(self.source)

    def vacuum(self) -> None:
        """Delete every file that the newest version does not need, once the stream has read all there is."""
        self.run(may_die=False)
        self.vacuumed = max((int(f.name) for f in Path(self.checkpoint, "commits").glob("[0-9]*")), default=-1)
        self.spark.conf.set(_RETENTION_CHECK, "false")
        try:
            self.spark.sql(f"VACUUM delta.`{self.source}` RETAIN 0 HOURS")
        finally:
            self.spark.conf.unset(_RETENTION_CHECK)

    def describe(self) -> None:
        self.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('note' = '{self.chance.random()}')")

    def constrain(self) -> None:
        self.named += 1
        self.sql(f"ALTER TABLE {{t}} ADD CONSTRAINT natural{self.named} CHECK (id >= 0)")

    def widen(self) -> None:
        self.named += 1
        self.columns.append(f"extra{self.named}")
        self.sql(f"ALTER TABLE {{t}} ADD COLUMN {self.columns[-1]} INT")

    def rename(self) -> None:
        if self.columns:
            self.named += 1
            old, self.columns[-1] = self.columns[-1], f"extra{self.named}"
            self.sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {self.columns[-1]}")

    def drop(self) -> None:
        if self.columns:
            self.sql(f"ALTER TABLE {{t}} DROP COLUMN {self.columns.pop(0)}")

    def step(self) -> None:
        """A statement, or none where there is nothing to do."""
        kinds = [self.insert, self.insert, self.insert, self.rewrite, self.describe, self.constrain, self.widen]
        kinds += [self.delete, self.update, self.update]
        if self.tracks:
            kinds += [self.rename, self.drop]
        self.chance.choice(kinds)()

    def run(self, *, may_die: bool = True) -> None:
        """Run the stream to the end of what there is, beside further statements or not, or to where it is killed:
        before or after a write, or anywhere."""
        if not self.began and not self.from_start:
            # What the stream finds first: the rows of this version.
            inserted, version = list(self.rows.items()), self.version
            self.expected = [(number, value, "insert", version) for number, value in inserted]
        self.began = True
        ends = ["available", "available", "beside", "before", "after", "anywhere"] if may_die else ["available"]
        for _ in range(20):
            try:
                self._once(self.chance.choice(ends))
                return
            except Exception as error:
                text = str(error)
                if "killed" in text:
                    return
                if not any(condition in text for condition in _RESTARTS):
                    raise
        raise AssertionError("the stream stops again and again")

    def _once(self, ends: str) -> None:
        if not self.in_batches and self.chance.random() < 0.4:
            self._forget()
        query = self._start(ends)
        try:
            if ends == "anywhere":
                time.sleep(self.chance.uniform(0, 1))
            elif ends == "beside":
                for _ in range(self.chance.randint(1, 3)):
                    self.step()
                query.processAllAvailable()
            else:
                query.awaitTermination()
        finally:
            query.stop()
        if query.exception() is not None:
            raise query.exception()

    def _forget(self) -> None:
        """The last batch is in the table, and the checkpoint's commit log does not have it."""
        commits = Path(self.checkpoint, "commits")
        done = [int(file.name) for file in commits.glob("[0-9]*")]
        if max(done, default=-1) > self.vacuumed:
            for name in (str(max(done)), f".{max(done)}.crc"):
                with suppress(FileNotFoundError):
                    (commits / name).unlink()

    def _start(self, ends: str) -> Any:
        at = self.chance.randint(0, 2)
        seen: list[int] = []

        def write(rows: Any, batch: int) -> None:
            seen.append(batch)
            if ends == "before" and len(seen) > at:
                raise RuntimeError("killed")
            writer = rows.write.format("delta").mode("append")
            writer.option("txnAppId", self.checkpoint).option("txnVersion", batch).save(self.sink)
            if ends == "after" and len(seen) > at:
                raise RuntimeError("killed")

        rows = self.spark.readStream.format("delta").options(**self._options()).load(self.source)
        columns = ["'insert' AS kind", "bigint(null) AS version"]
        if self.feed:
            columns = ["_change_type AS kind", "_commit_version AS version"]
        written = rows.selectExpr("id", "v", *columns).writeStream
        written = written.option("checkpointLocation", self.checkpoint)
        if ends != "beside":
            written = written.trigger(availableNow=True)
        return written.foreachBatch(write).start() if self.in_batches else written.format("delta").start(self.sink)

    def _options(self) -> dict[str, str]:
        options = {"maxFilesPerTrigger": str(self.chance.choice([1, 2, 1000]))}
        options |= {"readChangeFeed": "true"} if self.feed else {"skipChangeCommits": "true"}
        if self.from_start:
            options["startingVersion"] = "0"
        if self.tracks:
            options["schemaTrackingLocation"] = f"{self.checkpoint}/schemas"
            options |= {"allowSourceColumnRename": "always", "allowSourceColumnDrop": "always"}
        if self.chance.random() < 0.3:
            options["wholeCommits"] = "true"
        return options

    def check(self) -> None:
        """Each row is there once, and each commit's after those of the commits before it."""
        sink = self.spark.read.format("delta").load(self.sink)
        found = sink.selectExpr("_metadata.row_commit_version AS at", "*").collect()
        version = {number: version for number, _, _, version in self.expected}
        brought = [(r.id, r.v, r.kind, r.version if self.feed else version.get(r.id, -1)) for r in found]
        there, wanted = Counter(brought), Counter(self.expected)
        assert there == wanted, f"too many {there - wanted}, missing {wanted - there}"
        commits: dict[int, list[int]] = {}
        for row, (*_, version_of_row) in zip(found, brought, strict=True):
            commits.setdefault(row.at, []).append(version_of_row)
        last = 0
        for batch in sorted(commits):
            assert min(commits[batch]) >= last, f"batch {batch} goes back"
            last = max(commits[batch])


def tell(story: Story, runs: int) -> None:
    """Statements and runs of the stream in turn; then a run that nothing kills brings the rest."""
    for _ in range(runs):
        for _ in range(story.chance.randint(1, 4)):
            story.step()
        story.run()
        if story.chance.random() < 0.3:
            story.vacuum()
    story.run(may_die=False)
    story.check()
