"""A script: a table, a second table beside it, and statements about them; with the SQL that makes and runs it all.

A script is plain data, so that a failing one can be printed and run by hand: :meth:`Script.setup` and the statements'
own ``sql`` are all an engine needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from support.dml.expressions import OTHERS, SQL_TYPES, Row, quoted
from support.dml.model import Statement, Table, select_sql


@dataclass(frozen=True)
class Script:
    """``table`` with its first rows in about so many ``files``; ``properties`` are the table's.

    ``as_if_large``: Headwater is to treat the table as it does a large one. ``time_zone`` and ``ansi`` are the
    session's.
    """

    table: Table
    others: Table
    statements: tuple[Statement, ...]
    properties: tuple[tuple[str, str], ...] = ()
    files: int = 1
    others_stored: bool = False
    as_if_large: bool = False
    time_zone: str = "UTC"
    ansi: bool = True

    @property
    def has_change_data(self) -> bool:
        return dict(self.properties).get("delta.enableChangeDataFeed") == "true"

    @property
    def is_mapped(self) -> bool:
        return "delta.columnMapping.mode" in dict(self.properties)

    def create(self, path: Path | str) -> list[str]:
        """The statements that make the table."""
        by = (
            f" PARTITIONED BY ({', '.join(map(quoted, self.table.partitioned_by))})"
            if self.table.partitioned_by
            else ""
        )
        given = ", ".join(f"'{key}' = '{value}'" for key, value in self.properties)
        properties = f" TBLPROPERTIES ({given})" if given else ""
        query = select_sql(self.table.columns, self.table.rows, f"/*+ REPARTITION({self.files}) */ ")
        if self.files % 2:
            return [f"CREATE TABLE {name_of(path)} USING delta{by}{properties} AS {query}"]
        columns = ", ".join(f"{quoted(name)} {SQL_TYPES[kind]}" for name, kind in self.table.columns.items())
        return [
            f"CREATE TABLE {name_of(path)} ({columns}) USING delta{by}{properties}",
            f"INSERT INTO {name_of(path)} {query}",
        ]

    def second(self, path: Path | str) -> list[str]:
        """The statements that make the second table, which is a view of the session."""
        query = select_sql(self.others.columns, self.others.rows)
        if not self.others_stored:
            return [f"CREATE OR REPLACE TEMPORARY VIEW {OTHERS} AS {query}"]
        stored = name_of(f"{path}_others")
        return [
            f"CREATE TABLE {stored} USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name') AS {query}",
            f"CREATE OR REPLACE TEMPORARY VIEW {OTHERS} AS SELECT * FROM {stored}",
        ]

    def session(self) -> list[str]:
        """The settings any engine's session has."""
        return [
            f"SET spark.sql.session.timeZone = {self.time_zone}",
            f"SET spark.sql.ansi.enabled = {str(self.ansi).lower()}",
        ]

    def setup(self, path: Path | str) -> list[str]:
        small = f"SET spark.headwater.merge.smallTargetBytes = {0 if self.as_if_large else 1 << 30}"
        return [*self.session(), small, *self.create(path), *self.second(path)]

    def sql(self, path: Path | str = "/tmp/t") -> str:
        """All of it, to run by hand."""
        name = name_of(path)
        lines = self.setup(path) + [statement.sql(name, self.table) for statement in self.statements]
        return "".join(f"{line};\n" for line in lines)

    def first_rows(self) -> list[Row]:
        return [self.table.row(row) for row in self.table.rows]


def name_of(path: Path | str) -> str:
    return f"delta.`{path}`"
