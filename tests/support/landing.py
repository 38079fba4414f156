"""Files that arrive in a folder, and what COPY INTO makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def csv(folder: Path, name: str, *lines: str, header: str = "id,day") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([header, *lines]) + "\n" if header else "\n".join(lines) + "\n", encoding="utf-8")
    return file


def put(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def found(spark, text: str = "SELECT * FROM t") -> list[dict[str, Any]]:
    return sorted((row.asDict(True) for row in spark.sql(text).collect()), key=str)


def parquet(spark, folder: Path, name: str, query: str) -> None:
    spark.sql(query).coalesce(1).write.format("parquet").save(f"{folder}-made/{name}")
    (part,) = Path(f"{folder}-made/{name}").glob("part-*")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    part.rename(folder / name)


def loaded(spark, text: str) -> list[int]:
    shown = spark.sql(text)
    assert shown.columns == ["num_affected_rows", "num_inserted_rows", "num_skipped_corrupt_files"]
    (row,) = shown.collect()
    assert row[0] == row[1]
    return [row[0], row[2]]


def ids(spark, name: str = "t") -> list[int]:
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {name}").collect())
