"""Streaming queries for tests: a folder of JSON files, one a micro-batch, and a query that ends when all are read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

#: The time of a feed's first file, in seconds since the epoch; each further file is a second younger.
_FIRST_TIME = 1_700_000_000


class Feed:
    """A source and the checkpoint of a query that reads it, in one folder."""

    def __init__(self, spark: SparkSession, home: Path, schema: str = "id LONG, v STRING") -> None:
        self.spark, self.home, self.schema = spark, home, schema
        self.source, self.checkpoint = home / "source", home / "checkpoint"
        self.source.mkdir(parents=True)
        self._files = 0

    def put(self, *batches: Iterable[Mapping[str, Any]]) -> None:
        """Add files, each a batch of its own."""
        for rows in batches:
            text = "".join(json.dumps(row) + "\n" for row in rows)
            hidden = self.source / f".{self._files:05}.json"
            hidden.write_text(text)
            # Spark reads the files in the order of their times.
            os.utime(hidden, (_FIRST_TIME + self._files, _FIRST_TIME + self._files))
            hidden.rename(self.source / f"{self._files:05}.json")
            self._files += 1

    def read(self) -> DataFrame:
        """The rows of the files, one file a batch."""
        return self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1).json(str(self.source))

    def writer(self, rows: DataFrame | None = None, mode: str = "append", **options: Any) -> DataStreamWriter:
        """A writer of these rows, or of :meth:`read`, to a Delta table; its query ends when all files are read."""
        written = (self.read() if rows is None else rows).writeStream.format("delta").outputMode(mode)
        return written.option("checkpointLocation", str(self.checkpoint)).options(**options).trigger(availableNow=True)

    def forget_last_batch(self) -> int:
        """Make the query run its last batch again, as after a crash before the checkpoint's commit file; its number."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
        for name in (str(last), f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)
        return last


def rows_of(*numbers: int) -> list[dict[str, Any]]:
    """Rows of a batch: an ``id`` and a ``v``."""
    return [{"id": n, "v": f"v{n}"} for n in numbers]


def ran(query: StreamingQuery) -> StreamingQuery:
    """The query when it has ended; its error is raised."""
    query.awaitTermination()
    return query
