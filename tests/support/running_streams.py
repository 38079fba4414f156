"""Streams over tables that tests restart as they like, and the errors they end with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException


class Stream:
    """A stream over a table, restarted for each run; its rows go to Parquet files, a folder a micro-batch."""

    def __init__(self, spark: Any, home: Path, **options: Any) -> None:
        self._spark = spark
        self.home = home
        self.options = options
        self.batches: list[int] = []
        self.progress: list[dict[str, Any]] = []

    def run(self, source: str, most: int = 1000, where: str = "true", by_name: bool = False) -> list[list[Any]]:
        """Read what there is, at most so many micro-batches; the rows of all runs, by micro-batch."""
        begun: list[int] = []

        def write(rows: Any, batch: int) -> None:
            if len(begun) == most:
                raise RuntimeError("enough micro-batches")
            begun.append(batch)
            rows.write.mode("overwrite").parquet(f"{self.home}/out/{batch:05}")

        reader = self._spark.readStream.format("delta").options(**self.options)
        table = reader.table(source) if by_name else reader.load(source)
        query = (
            table.where(where)
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", f"{self.home}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:
            if "enough micro-batches" not in str(error):
                raise
        self.progress = [json.loads(p.json) for p in query.recentProgress]
        return self.rows()

    def rows(self) -> list[list[Any]]:
        folders = sorted((self.home / "out").glob("*"))
        read = self._spark.read.format("parquet")
        return [sorted(tuple(row) for row in read.load(str(folder)).collect()) for folder in folders]

    def offsets(self) -> list[dict[str, Any]]:
        """The offset of each micro-batch in the checkpoint."""
        files = sorted((self.home / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda f: int(f.name))
        return [json.loads(file.read_text().splitlines()[-1]) for file in files]


@contextmanager
def ends(condition: str, *words: str) -> Iterator[None]:
    """The query ends with this error of ours."""
    with pytest.raises(StreamingQueryException) as raised:
        yield
    assert f"[{condition}]" in str(raised.value)
    assert all(word in str(raised.value) for word in words), str(raised.value)
    told = str(raised.value).partition("=== Streaming Query")[0]
    assert not any(word in told for word in ("py4j", "Traceback", 'File "'))
