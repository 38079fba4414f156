"""Jobs that are killed under one version and continued under another.

Each runs in copies of the same tables, ``after-0``, ``after-1`` and so on. In ``after-k`` its handler is held once it
has put its ``k``-th file (:mod:`upgrades.holding`); then the whole process is killed. A job is continued as its user
would: the same statement again, or the same query with its checkpoint. No row may be lost or twice then.

A copy in which the job ended before its ``k``-th file, or was held in what follows a commit, is continued as well; but
a job that is not held at its first file was not killed, and is an error.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from upgrades.story import EVENT, UPSERT, At, same

#: Seconds until each copy is held or done.
_PATIENCE = 180.0
#: Seconds that are given to what follows a commit, in the background.
_AFTERWARDS = 3.0


@dataclass(frozen=True)
class Job:
    """``run`` is what is killed and what is started again; ``check`` compares the end with the truth.

    :param between: what must hold before it is started again: all of the job's rows or none.
    :param steps: up to which file it is held.
    """

    name: str
    title: str
    prepare: Callable[[At], None]
    run: Callable[[At], None]
    check: Callable[[At], None]
    between: Callable[[At], None] = lambda at: None
    steps: int = 4


def kill(job: Job, at: At) -> dict[str, str]:
    """Have a job held in each of its copies; where, by copy: the process is to be killed then."""
    template = Path(at.folder) / "template"
    template.mkdir(parents=True)
    job.prepare(replace(at, folder=str(template)))
    places = [Path(at.folder) / f"after-{k}" for k in range(job.steps + 1)]
    ended: dict[Path, str] = {}

    def work(place: Path) -> None:
        try:
            job.run(replace(at, folder=str(place), spark=at.spark.newSession()))
            ended[place] = "ended before"
        except Exception as error:
            ended[place] = f"failed: {error}"

    time.sleep(_AFTERWARDS)  # what the preparation left to the background
    for place in places:
        shutil.copytree(template, place)
        _give_id(place / "checkpoint")
        (place / "armed").touch()
        threading.Thread(target=work, args=(place,), daemon=True).start()
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if all(place in ended or (place / "held").exists() for place in places):
            break
        time.sleep(0.2)
    else:
        raise AssertionError(f"{job.name} was neither held nor done")
    time.sleep(_AFTERWARDS)
    if failed := [text for text in ended.values() if text.startswith("failed")]:
        raise AssertionError(failed[0])
    if early := [place.name for place in places[:2] if place in ended]:
        raise AssertionError(f"{job.name} ended in {' and '.join(early)}: nothing was held that could be killed")
    found = {place: (place / "held") for place in places}
    return {
        place.name: note.read_text().removeprefix(f"{place}/") if note.exists() else "ended before"
        for place, note in found.items()
    }


def _give_id(checkpoint: Path) -> None:
    """Spark runs no two queries of one id at the same time."""
    if (checkpoint / "metadata").exists():
        (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        (checkpoint / ".metadata.crc").unlink(missing_ok=True)


def resume(job: Job, at: At) -> None:
    """Continue the job in each of its copies.

    :raises AssertionError: rows are missing, twice or wrong; the copy is named.
    """
    _in_each(at, job.between, job.run, job.check)


def look(job: Job, at: At) -> None:
    """Compare the end of a job, which another version has finished, with the truth."""
    _in_each(at, job.check)


def _in_each(at: At, *parts: Callable[[At], None]) -> None:
    for place in sorted(Path(at.folder).glob("after-*")):
        (place / "armed").unlink(missing_ok=True)
        for part in parts:
            try:
                part(replace(at, folder=str(place)))
            except Exception as error:
                raise AssertionError(f"{place.name}: {error}") from error


def _prepare_merge(at: At) -> None:
    at.sql(
        "CREATE TABLE delta.`{at}/t` (id BIGINT, v STRING) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true')"
    )
    at.sql("INSERT INTO delta.`{at}/t` SELECT id, 'old' FROM range(10)")


def _merge(at: At) -> None:
    at.sql(
        "MERGE INTO delta.`{at}/t` AS t USING (SELECT id, 'new' AS v FROM range(8, 12)) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE"
    )


_MERGED = [(i, "new" if i > 7 else "old") for i in range(1, 12)]


def _merged_or_not(at: At) -> None:
    found = at.sql("SELECT id, v FROM delta.`{at}/t` ORDER BY id")
    if found != [(i, "old") for i in range(10)]:
        same("the table", found, _MERGED)


def _prepare_optimize(at: At) -> None:
    at.sql(
        "CREATE TABLE delta.`{at}/t` (id BIGINT, v STRING) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    for i in range(3):
        at.sql(
            "INSERT INTO delta.`{at}/t` SELECT /*+ COALESCE(1) */ id, 'v' FROM range({low}, {high})",
            low=10 * i,
            high=10 * i + 10,
        )
    at.sql("DELETE FROM delta.`{at}/t` WHERE id = 5")


def _optimized(at: At) -> None:
    at.must("SELECT id, v FROM delta.`{at}/t` ORDER BY id", [(i, "v") for i in range(30) if i != 5])


def _upsert(at: At, *rows: tuple[int, int, str, bool]) -> None:
    frame = at.spark.createDataFrame(list(rows), EVENT)
    frame.write.format("delta").mode("append").options(**UPSERT).save(f"{at.folder}/t")


def _prepare_upsert(at: At) -> None:
    _upsert(at, (1, 10, "a", False), (2, 10, "b", False), (4, 10, "d", False))
    _upsert(at, (4, 20, "", True))


def _upserted(at: At) -> None:
    _upsert(at, (2, 15, "late", False), (4, 15, "late", False), (3, 1, "late", False))
    at.must("SELECT k, at, v FROM delta.`{at}/t` ORDER BY k", [(1, 30, "new"), (3, 10, "c")])


def _prepare_stream(at: At) -> None:
    at.sql("CREATE TABLE delta.`{at}/from` (id BIGINT) USING delta")
    for i in range(3):
        at.sql("INSERT INTO delta.`{at}/from` VALUES ({i})", i=i)
    _stream(at)
    for i in range(3, 6):
        at.sql("INSERT INTO delta.`{at}/from` VALUES ({i})", i=i)


def _stream(at: At) -> None:
    reader = at.spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(f"{at.folder}/from")
    writer = reader.writeStream.format("delta").option("checkpointLocation", f"{at.folder}/checkpoint")
    writer.trigger(availableNow=True).start(f"{at.folder}/t").awaitTermination()


def _prepare_upsert_stream(at: At) -> None:
    at.sql(f"CREATE TABLE delta.`{{at}}/from` ({EVENT}) USING delta")
    at.sql("INSERT INTO delta.`{at}/from` VALUES (1, 10, 'a', false), (2, 10, 'b', false), (4, 10, 'd', false)")
    _upsert_stream(at)
    at.sql("INSERT INTO delta.`{at}/from` VALUES (1, 30, 'new', false), (2, 20, '', true), (3, 10, 'c', false)")
    at.sql("INSERT INTO delta.`{at}/from` VALUES (4, 20, '', true), (2, 15, 'late', false)")


def _upsert_stream(at: At) -> None:
    reader = at.spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(f"{at.folder}/from")
    writer = reader.writeStream.format("delta").option("checkpointLocation", f"{at.folder}/checkpoint")
    writer.options(**UPSERT).trigger(availableNow=True).start(f"{at.folder}/t").awaitTermination()


def _prepare_transaction(at: At) -> None:
    for table in "abc":
        at.sql("CREATE TABLE delta.`{at}/{which}` (id INT, n INT) USING delta", which=table)
        at.sql("INSERT INTO delta.`{at}/{which}` VALUES (1, 0)", which=table)


def _transaction(at: At) -> None:
    """Idempotent, so that it may be started again after a commit that stood."""
    at.sql("BEGIN TRANSACTION")
    for table in "abc":
        at.sql("UPDATE delta.`{at}/{which}` SET n = 1 WHERE id = 1", which=table)
        at.sql("INSERT INTO delta.`{at}/{which}` REPLACE WHERE id = 2 VALUES (2, 1)", which=table)
    at.sql("COMMIT")


def _all_or_none(at: At) -> None:
    """Read in one transaction: between queries on their own, another may finish what was cut off."""
    at.sql("BEGIN TRANSACTION")
    found = [at.sql("SELECT id, n FROM delta.`{at}/{which}` ORDER BY id", which=table) for table in "abc"]
    at.sql("COMMIT")
    if found != 3 * [[(1, 0)]]:
        same("the tables of the transaction", found, 3 * [[(1, 1), (2, 1)]])


def _all(at: At) -> None:
    for table in "abc":
        at.must("SELECT id, n FROM delta.`{at}/{which}` ORDER BY id", [(1, 1), (2, 1)], which=table)
        at.sql("INSERT INTO delta.`{at}/{which}` VALUES (3, 1)", which=table)
        at.sql("DELETE FROM delta.`{at}/{which}` WHERE id = 3", which=table)


JOBS = (
    Job(
        "killed-merge",
        "MERGE",
        _prepare_merge,
        _merge,
        lambda at: same("rows", at.sql("SELECT id, v FROM delta.`{at}/t` ORDER BY id"), _MERGED),
        _merged_or_not,
    ),
    Job(
        "killed-optimize",
        "OPTIMIZE",
        _prepare_optimize,
        lambda at: (at.sql("OPTIMIZE delta.`{at}/t`"), None)[1],
        _optimized,
        _optimized,
    ),
    Job(
        "killed-upsert",
        "an upsert that deletes keys",
        _prepare_upsert,
        lambda at: _upsert(at, (1, 30, "new", False), (2, 20, "", True), (3, 10, "c", False)),
        _upserted,
        steps=6,
    ),
    Job(
        "killed-stream",
        "a stream from table to table",
        _prepare_stream,
        _stream,
        lambda at: at.must("SELECT id FROM delta.`{at}/t` ORDER BY id", [(i,) for i in range(6)]),
        steps=6,
    ),
    Job(
        "killed-stream-upserts",
        "a stream of upserts that delete keys",
        _prepare_upsert_stream,
        _upsert_stream,
        _upserted,
        steps=8,
    ),
    Job(
        "killed-transaction",
        "a transaction over three tables",
        _prepare_transaction,
        _transaction,
        _all,
        _all_or_none,
        9,
    ),
)

BY_NAME: dict[str, Job] = {job.name: job for job in JOBS}
