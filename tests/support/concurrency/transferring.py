"""A Spark that moves money between two tables: ``transferring <number> <folder> <transfers>``.

It waits for the file ``start`` in the folder, so that several begin at once. Each transfer is a transaction: it takes
from an account of the table ``left`` and gives to one of ``right``, or the other way round; another transaction then
reads both sums, which together never change. Transfers that lose to others are made again. Lines of standard output:
``ready``, ``made`` for each transfer, then what was wrong.
"""

from __future__ import annotations

import os
import random
import sys
import time
from typing import Any

from support.sessions import settings

ACCOUNTS, BALANCE = 8, 100
TOTAL = 2 * ACCOUNTS * BALANCE
_SETTINGS = {**settings(), "spark.log.level": "ERROR", "spark.driver.memory": "700m"}
#: What asks to run a transaction again.
_AGAIN = (
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "HEADWATER_TRANSACTION_ABORTED",
    "HEADWATER_TRANSACTION_VERSIONS",
)


def transfer(spark: Any, folder: str, drawn: random.Random) -> None:
    """Move an amount from an account of one table to one of the other."""
    import headwater

    giver, taker = drawn.sample(["left", "right"], 2)
    amount = drawn.randint(1, 9)
    with headwater.in_transaction(spark):
        for name, change in ((giver, f"- {amount}"), (taker, f"+ {amount}")):
            account = drawn.randrange(ACCOUNTS)
            spark.sql(f"UPDATE delta.`{folder}/{name}` SET balance = balance {change} WHERE id = {account}").collect()


def total(spark: Any, folder: str) -> int:
    """What both tables have, as one transaction sees them."""
    import headwater

    with headwater.in_transaction(spark):
        names = ("left", "right")
        return sum(spark.sql(f"SELECT sum(balance) FROM delta.`{folder}/{name}`").collect()[0][0] for name in names)


def again(what: Any) -> Any:
    """Run a transaction until it does not lose to another."""
    while True:
        try:
            return what()
        except Exception as error:
            if not any(name in str(error) for name in _AGAIN):
                raise
            time.sleep(random.random() / 5)


def main(number: str, folder: str, transfers: str) -> None:
    """Start Spark, wait, transfer and look."""
    from pyspark.sql import SparkSession

    import headwater

    builder = SparkSession.builder
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse{number}")
    spark = headwater.configure(builder).getOrCreate()
    drawn = random.Random(int(number))
    total(spark, folder)
    print("ready", flush=True)
    while not os.path.exists(f"{folder}/start"):
        time.sleep(0.01)
    for _ in range(int(transfers)):
        try:
            again(lambda: transfer(spark, folder, drawn))
            print("made", flush=True)
            seen = again(lambda: total(spark, folder))
            if seen != TOTAL:
                print(f"saw {seen}", flush=True)
        except Exception as error:
            print("failed", str(error).splitlines()[0], flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
