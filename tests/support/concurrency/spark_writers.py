"""A Spark that writes to banks by SQL: ours when run as ``spark_writers <name> <folder> <kind> <table>...``.

The peer's process imports :func:`run` and calls it with a session of its own. Two threads, each with a session, make
transfers (UPDATE and MERGE) and append entries, while a third reads. They go on until ``stop`` is in the folder; when
``end`` is there too, the tables as this engine shows them then go into the diary. With the kind ``maintains``, one more
thread compacts, lays out, purges, vacuums and restores the tables.
"""

from __future__ import annotations

import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from support.concurrency.bank import ACCOUNTS, TOTAL, Diary, Transfer, statement
from support.sessions import settings

_MARKER = "spark.databricks.delta.commitInfo.userMetadata"
_SETTINGS = {
    **settings(),
    "spark.log.level": "ERROR",
    "spark.driver.memory": "1g",
    # Of tables that ask for auto-compaction.
    "spark.databricks.delta.autoCompact.minNumFiles": "10",
}
#: Of the writers of a process that maintains, in seconds: engines that commit more slowly would lose each race.
_MOST_PAUSE = 1.0
#: VACUUM makes no commits, which would be two of one statement.
_OF_MAINTENANCE = {"spark.databricks.delta.vacuum.logging.enabled": "false"}
#: Of the statements of maintenance, how often each is drawn.
_MAINTENANCE = {"optimize": 5, "zorder": 2, "purge": 2, "vacuum": 2, "restore": 1}
#: RESTORE goes back to one of so many versions, which VACUUM cannot have begun to delete.
_VERSIONS_BACK = 5
_SUMS = "SELECT count(account), count(DISTINCT account), sum(balance) FROM delta.`{}`"


class _Writer:
    """One session's statements."""

    def __init__(self, spark: Any, name: str, paths: list[str], diary: Diary, by: str) -> None:
        self.spark, self.name, self.paths, self.diary, self.by = spark, name, paths, diary, by
        self.chance = random.Random(name)
        self.number = 0

    def step(self) -> None:
        """One statement; what became of it goes into the diary."""
        self.number += 1
        path, marker = self.paths[self.number % len(self.paths)], f"{self.name}-{self.number}"
        kind = self.chance.choice(["update", "merge", "insert"])
        transfer = None if kind == "insert" else Transfer.drawn(self.chance)
        # Other threads' settings are not this session's, and the next statement sets its own.
        self.spark.conf.set(_MARKER, marker)
        self.diary.tries(path, f"{self.by} {kind}", marker, transfer)
        try:
            self.spark.sql(statement(kind, path, marker, transfer)).collect()
        except Exception as error:
            self.diary.conflict(path, f"{self.by} {kind}", marker, _condition(error), str(error))
        else:
            self.diary.acknowledged(path, f"{self.by} {kind}", marker)


class _Maintainer(_Writer):
    """One session's maintenance of the tables."""

    def step(self) -> None:
        """One statement, which changes no row or takes back the last commits."""
        self.number += 1
        path, marker = self.paths[self.number % len(self.paths)], f"{self.name}-{self.number}"
        kind = self.chance.choices(list(_MAINTENANCE), list(_MAINTENANCE.values()))[0]
        table = f"delta.`{path}`"
        statements = {
            "optimize": f"OPTIMIZE {table}",
            "zorder": f"OPTIMIZE {table} ZORDER BY (account)",
            "purge": f"REORG TABLE {table} APPLY (PURGE)",
            "vacuum": f"VACUUM {table}",
        }
        if kind == "restore":
            history = self.spark.sql(f"DESCRIBE HISTORY {table} LIMIT {_VERSIONS_BACK}").collect()
            statements[kind] = f"RESTORE TABLE {table} TO VERSION AS OF {self.chance.choice(history)[0]}"
        for name, value in {_MARKER: marker, **_OF_MAINTENANCE}.items():
            self.spark.conf.set(name, value)
        self.diary.tries(path, f"{self.by} {kind}", marker, None)
        try:
            self.spark.sql(statements[kind]).collect()
        except Exception as error:
            self.diary.conflict(path, f"{self.by} {kind}", marker, _condition(error), str(error))
        else:
            self.diary.done(path, f"{self.by} {kind}", marker)
        time.sleep(self.chance.uniform(0, _MOST_PAUSE))


def _condition(error: Exception) -> str:
    found = re.search(r"\[([A-Z][A-Z_.0-9]+)\]", str(error)) or re.search(r"\b(DELTA_[A-Z_]+)", str(error))
    return found[1] if found else type(error).__name__


def run(spark: Any, name: str, folder: str, paths: list[str], by: str, threads: int, maintains: bool = False) -> None:
    """Write and read until told to stop, then wait for the end and tell what the tables hold."""
    diary, failed = Diary(Path(folder) / name), []

    def until_stop(step: Callable[[], None]) -> threading.Thread:
        def work() -> None:
            try:
                while not os.path.exists(f"{folder}/stop"):
                    step()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def writes(writer: _Writer) -> None:
        writer.step()
        if maintains:
            time.sleep(writer.chance.uniform(0, _MOST_PAUSE))

    writers = [_Writer(spark.newSession(), f"{name}.{number}", paths, diary, by) for number in range(threads)]
    running = [until_stop(partial(writes, writer)) for writer in writers]
    if maintains:
        running.append(until_stop(_Maintainer(spark.newSession(), f"{name}.maintainer", paths, diary, by).step))
    reader, versions = spark.newSession(), dict.fromkeys(paths, 0)

    def read() -> None:
        for path in paths:
            found = tuple(reader.sql(_SUMS.format(path)).collect()[0])
            assert found == (ACCOUNTS, ACCOUNTS, TOTAL), f"{by} reads {found}"
            version = reader.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0][0]
            assert version >= versions[path], "a version that was there is gone"
            versions[path] = version
            diary.note(what="read", table=path, kind=f"{by} reader", versions=1)
            time.sleep(0.2)

    running.append(until_stop(read))
    for thread in running:
        thread.join()
    if failed:
        raise failed[0]
    while not os.path.exists(f"{folder}/end"):
        time.sleep(0.05)
    for path in paths:
        accounts = spark.sql(f"SELECT account, balance FROM delta.`{path}` WHERE account IS NOT NULL").collect()
        ids = [0]
        if maintains:
            ids = [
                row[0] for row in spark.sql(f"SELECT _metadata.row_id FROM delta.`{path}` ORDER BY account").collect()
            ]
        appended = spark.sql(f"SELECT entry FROM delta.`{path}` WHERE account IS NULL").collect()
        diary.note(
            what="end",
            table=path,
            by=by,
            balances=sorted([row[0], row[1]] for row in accounts),
            entries=sorted(row[0] for row in appended),
            ids=ids,
        )


def main(name: str, folder: str, kind: str, *paths: str) -> None:
    """Start a Spark with Headwater and run."""
    from pyspark.sql import SparkSession

    import headwater

    builder = SparkSession.builder
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    spark = headwater.configure(builder).getOrCreate()
    try:
        run(spark, name, folder, list(paths), "spark", threads=2, maintains=kind == "maintains")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
