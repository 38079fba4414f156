"""What is done to a table, as values: each engine's adapter carries out those that it has, and Spark's as SQL.

``{t}`` in SQL is the table, ``{path}`` its folder. Rows lie in a Parquet file that the case has written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Step:
    """A step; its fields are what an adapter needs to know of it."""


@dataclass(frozen=True)
class Append(Step):
    """Append rows, in the columns of ``data`` or those of the case."""

    rows: tuple[Row, ...]
    data: str | None = None


@dataclass(frozen=True)
class Overwrite(Step):
    """Replace all rows."""

    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Delete(Step):
    """Delete the rows that match."""

    where: str


@dataclass(frozen=True)
class Update(Step):
    """Assign an expression to a column of the rows that match."""

    column: str
    value: str
    where: str


@dataclass(frozen=True)
class Upsert(Step):
    """MERGE by a key column: rows that match are updated, the others inserted."""

    key: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Optimize(Step):
    """Compact files; in the order of ``zorder`` if there are columns."""

    zorder: tuple[str, ...] = ()


@dataclass(frozen=True)
class Restore(Step):
    """Go back to a version."""

    version: int


@dataclass(frozen=True)
class AddConstraint(Step):
    """Add a CHECK constraint."""

    name: str
    condition: str


@dataclass(frozen=True)
class AddColumn(Step):
    """Add a column, whose values are null in all rows that exist."""

    name: str
    sql: str


@dataclass(frozen=True)
class Sql(Step):
    """A statement of Spark SQL that only Spark's connectors have."""

    text: str


@dataclass(frozen=True)
class Setting(Step):
    """A setting of the session, until the case ends."""

    name: str
    value: str


@dataclass(frozen=True)
class Checkpoint(Step):
    """Write a checkpoint of the version that is now the newest, if the engine can be asked for it.

    Spark's connectors write one by themselves, as the case's ``delta.checkpointInterval`` has it.
    """


@dataclass(frozen=True)
class CleanLog(Step):
    """Delete the commits below the newest checkpoint, so that every reader starts from that; no engine does it."""


@dataclass(frozen=True)
class CompactLog(Step):
    """Write a compacted file of commits 1 to ``last``, which append only; no engine does it."""

    last: int


@dataclass(frozen=True)
class DeleteChecksums(Step):
    """Delete the checksum files of the log; no engine does it."""


#: Steps that the command carries out on the log's files, whichever engine made the table.
BY_HAND = (CleanLog, CompactLog, DeleteChecksums)


def by_hand(step: Step, path: Path) -> None:
    """Carry out a step on the log's files.

    :raises FileNotFoundError: there is no checkpoint.
    """
    log = path / "_delta_log"
    if isinstance(step, CleanLog):
        newest = max((_version(file) or 0 for file in log.glob("*.checkpoint*.*")), default=None)
        if newest is None:
            raise FileNotFoundError(f"no checkpoint in {log}")
        for file in (*log.glob("*.json"), *log.glob("*.crc")):
            if (version := _version(file)) is not None and version < newest and "checkpoint" not in file.name:
                file.unlink()
    elif isinstance(step, CompactLog):
        names = [log / f"{version:020d}.json" for version in range(1, step.last + 1)]
        lines = [line for name in names for line in name.read_text("utf-8").splitlines()]
        kept = [line for line in lines if "commitInfo" not in json.loads(line)]
        (log / f"{1:020d}.{step.last:020d}.compacted.json").write_text("\n".join([*kept, ""]), "utf-8")
    elif isinstance(step, DeleteChecksums):
        for file in log.glob("*.crc"):
            file.unlink()


def _version(file: Path) -> int | None:
    """The version that a file of the log belongs to."""
    found = re.match(r"(\d{20})\.", file.name)
    return int(found[1]) if found else None


def sql(step: Step, table: str, path: str, file: str, columns: Sequence[str], values: Sequence[str]) -> list[str]:
    """The statements of Spark SQL that carry out a step.

    :param file: the Parquet file that has the step's rows.
    :param columns: their columns; ``values``: the expression of each over the file.
    """
    names = ", ".join(f"`{name}`" for name in columns)
    rows = f"SELECT {', '.join(f'{value} AS `{name}`' for value, name in zip(values, columns, strict=True))}"
    rows += f" FROM parquet.`{file}`"
    match step:
        case Append():
            return [f"INSERT INTO {table} ({names}) {rows}"]
        case Overwrite():
            return [f"INSERT OVERWRITE {table} {rows}"]
        case Delete(where):
            return [f"DELETE FROM {table} WHERE {where}"]
        case Update(column, value, where):
            return [f"UPDATE {table} SET `{column}` = {value} WHERE {where}"]
        case Upsert(key, _):
            return [
                f"MERGE INTO {table} AS t USING ({rows}) AS s ON t.`{key}` = s.`{key}` "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            ]
        case Optimize(zorder):
            return [f"OPTIMIZE {table}" + (f" ZORDER BY ({', '.join(zorder)})" if zorder else "")]
        case Restore(version):
            return [f"RESTORE TABLE {table} TO VERSION AS OF {version}"]
        case AddConstraint(name, condition):
            return [f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({condition})"]
        case AddColumn(name, kind):
            return [f"ALTER TABLE {table} ADD COLUMNS (`{name}` {kind})"]
        case Sql(text):
            return [text.replace("{t}", table).replace("{path}", path)]
        case Setting(name, value):
            return [f"SET {name} = {value}"]
    return []
