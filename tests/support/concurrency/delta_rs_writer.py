"""A process in which delta-rs writes to banks: ``delta_rs_writer <name> <diary> <stop file> <table>...``.

It appends entries, and makes transfers by its own UPDATE; conflicts it reports are noted.
"""

from __future__ import annotations

import os
import random
import sys
import time

import deltalake
import pyarrow as pa
from deltalake.exceptions import DeltaError

from support.concurrency.bank import COLUMNS, Diary, Transfer

_PAUSE_SECONDS = float(os.environ.get("HEADWATER_TEST_PAUSE", "0.3"))


def write(path: str, chance: random.Random, marker: str, diary: Diary) -> None:
    """One commit, or a conflict."""
    properties = deltalake.CommitProperties(custom_metadata={"userMetadata": marker})
    kind = chance.choice(["append", "update"])
    transfer = None if kind == "append" else Transfer.drawn(chance)
    diary.tries(path, f"delta-rs {kind}", marker, transfer)
    try:
        if transfer is None:
            row = pa.table({"account": [None], "balance": [0], "entry": [marker]}, schema=COLUMNS)
            deltalake.write_deltalake(path, row, mode="append", schema_mode="merge", commit_properties=properties)
        else:
            deltalake.DeltaTable(path).update(
                updates={"balance": transfer.new_balance},
                predicate=transfer.condition,
                commit_properties=properties,
            )
    except (DeltaError, OSError) as error:
        diary.conflict(path, f"delta-rs {kind}", marker, type(error).__name__, str(error))
    else:
        diary.acknowledged(path, f"delta-rs {kind}", marker)


def main(name: str, diary_path: str, stop: str, *paths: str) -> None:
    """Write until told to stop."""
    chance, diary, number = random.Random(name), Diary(diary_path), 0
    while not os.path.exists(stop):
        number += 1
        write(paths[number % len(paths)], chance, f"{name}-{number}", diary)
        time.sleep(_PAUSE_SECONDS * chance.random())


if __name__ == "__main__":
    main(*sys.argv[1:])
