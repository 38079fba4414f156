"""A Spark whose threads upsert: ``upserting <number> <folder> <threads> <statements each>``.

It waits for the file ``start`` in the folder, so that several begin at once. Every thread runs statements on each of
two tables there: ``other`` has a row for each thread of each process, which its thread counts up, and gets a new row
with each statement; of ``same`` all count up the same rows, and note who was there last. One line of standard output
for each failure ends the process's account, which begins with ``ready``.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.sessions import settings

SAME_KEYS = 2
_SETTINGS = {**settings(), "spark.log.level": "ERROR", "spark.driver.memory": "700m"}


def other_keys(spark: Any, table: str, writer: int, number: int) -> None:
    """Count up the writer's row, and insert another one."""
    source = f"VALUES ({writer}, {writer}), ({1000 * (writer + 1) + number}, {writer}) AS s(k, writer)"
    spark.sql(
        f"MERGE INTO {table} AS t USING (SELECT * FROM {source}) AS s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET n = t.n + 1 "
        "WHEN NOT MATCHED THEN INSERT (k, writer, n) VALUES (s.k, s.writer, 0)"
    ).collect()


def same_keys(spark: Any, table: str, writer: int, number: int) -> None:
    """Count up the rows that all count up; whoever comes first inserts them."""
    source = f"SELECT CAST(id AS INT) AS k, {writer} AS writer FROM range({SAME_KEYS})"
    spark.sql(
        f"MERGE INTO {table} AS t USING ({source}) AS s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET n = t.n + 1, writer = s.writer "
        "WHEN NOT MATCHED THEN INSERT (k, writer, n) VALUES (s.k, s.writer, 1)"
    ).collect()


def main(number: str, folder: str, threads: str, each: str) -> None:
    """Start Spark, wait, upsert."""
    from pyspark.sql import SparkSession

    import headwater

    builder = SparkSession.builder
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse{number}")
    spark = headwater.configure(builder).getOrCreate()

    def write(thread: int) -> None:
        writer = int(number) * int(threads) + thread
        for statement in range(int(each)):
            for step, name in ((other_keys, "other"), (same_keys, "same")):
                try:
                    step(spark, f"delta.`{folder}/{name}`", writer, statement)
                except Exception as error:
                    print("failed", name, str(error).splitlines()[0], flush=True)

    spark.sql(f"SELECT count(*) FROM delta.`{folder}/other`").collect()
    print("ready", flush=True)
    while not os.path.exists(f"{folder}/start"):
        time.sleep(0.01)
    with ThreadPoolExecutor(int(threads)) as pool:
        list(pool.map(write, range(int(threads))))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
