"""Statements that lose a race on purpose: their jobs wait until another writer has committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_PATIENCE_SECONDS = 60


def register(spark: SparkSession, folder: Path, only: int | None = None) -> None:
    """Give a session the function ``gate(x)``: it returns x once the gate whose processes meet in a folder is open.

    :param only: the value that has to wait; None for every one.
    """
    at = str(folder)

    def gate(value: Any) -> Any:
        import os
        import time
        import uuid

        if only is not None and value != only:
            return value
        open(f"{at}/seen-{uuid.uuid4()}", "w").close()
        until = time.monotonic() + _PATIENCE_SECONDS
        while not os.path.exists(f"{at}/open") and time.monotonic() < until:
            time.sleep(0.02)
        return value

    spark.udf.register("gate", gate, "int")


class Gate:
    """A gate in a folder.

    :param sql: runs a statement in a session that the gate is registered in.
    """

    def __init__(self, sql: Callable[[str], Any], folder: Path) -> None:
        self._sql = sql
        self._folder = folder

    def lose(self, loser: str, winner: Callable[[], Any]) -> int:
        """Run a statement whose job calls ``gate`` for one row, and let another writer commit meanwhile.

        :returns: how often the statement's job ran.
        """
        for file in self._folder.iterdir():
            file.unlink()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(self._sql, loser)
            try:
                while not self._seen and not running.done():
                    time.sleep(0.02)
                assert not running.done(), running.result()
                winner()
            finally:
                (self._folder / "open").touch()
            running.result()
        return self._seen

    @property
    def _seen(self) -> int:
        return len(list(self._folder.glob("seen-*")))
