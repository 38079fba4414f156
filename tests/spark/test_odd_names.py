"""Columns of any name: no statement has names of its own that a user's column could not have, too.

Random tables whose columns, and whose sources' columns, are called as this package calls things, as Spark does, as SQL
does, or oddly; every statement, with and without a change data feed, is held to plain Python.
``HEADWATER_TEST_EXAMPLES`` asks for another number of tables, drawn anew.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "1"))
SEED = None if "HEADWATER_TEST_EXAMPLES" in os.environ else 6
PACKAGE = Path(__file__).resolve().parents[2] / "python" / "headwater"
#: Names that Spark's readers and SQL's texts give a meaning to.
OF_SPARK = [
    "_tmp_metadata_row_index",
    "_metadata",
    "file_path",
    "row_index",
    "__index_level_0__",
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
]
KEYWORDS = ["select", "source", "target", "when", "matched", "true", "null", "current_date", "left", "default", "row"]
ODD = [
    "a.b",
    "a b",
    "ta`ck",
    "it's",
    'dou"ble',
    "é",
    "ſource_row",
    "x;y",
    "--",
    "/*",
    "hw_expr",
    "{n}",
    "$1",
    "\\n",
    "%s",
]
OWN = [
    "__hw_file",
    "__hw_row",
    "__hw_action",
    "__hw_change",
    "hw_plan",
    "hw_expr",
    "file_number_2",
    "ACTION",
    "Is_Change",
]


def names_of_ours() -> list[str]:
    """Every word that this package uses as a name of its own."""
    found = set(OWN)
    for file in PACKAGE.rglob("*.py"):
        found |= set(re.findall(r'names\.of\("(\w+)"\)', file.read_text(encoding="utf-8")))
    return sorted(found)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def draw(rng: random.Random, count: int, change_feed: bool) -> list[str]:
    names: dict[str, str] = {}
    while len(names) < count:
        pool = rng.choice([OF_SPARK, KEYWORDS, ODD, names_of_ours(), names_of_ours()])
        name = rng.choice(pool)
        name = rng.choice([name, name, name.upper()])
        if change_feed and name.lower() in ("_change_type", "_commit_version", "_commit_timestamp"):
            continue
        names.setdefault(name.lower(), name)
    return list(names.values())


class Case:
    """A table with a key and three more columns, and what plain Python says is in it."""

    def __init__(self, spark: Any, path: Path, rng: random.Random) -> None:
        self.spark, self.path, self.rng = spark, path, rng
        self.change_feed = rng.random() < 0.5
        self.names = draw(rng, 4, self.change_feed)
        self.table = f"delta.`{path}`"
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.done = [f"columns {self.names}"]
        simple = all(not set(" ,;{}()\n\t=") & set(name) for name in self.names)
        properties = {
            "delta.enableChangeDataFeed": self.change_feed,
            "delta.enableDeletionVectors": rng.random() < 0.5,
        }
        shown = ", ".join(f"'{key}' = '{str(value).lower()}'" for key, value in properties.items())
        if not simple or rng.random() < 0.3:
            shown += ", 'delta.columnMapping.mode' = 'name'"
        columns = ", ".join(f"{quoted(name)} BIGINT" for name in self.names)
        by = f"PARTITIONED BY ({quoted(self.names[3])})" if rng.random() < 0.3 else ""
        self.run(f"CREATE TABLE {{t}} ({columns}) USING delta {by} TBLPROPERTIES ({shown})")

    def run(self, sql: str) -> None:
        self.done.append(sql)
        try:
            self.spark.sql(sql.replace("{t}", self.table))
        except Exception as error:
            raise AssertionError("\n".join(self.done)) from error

    def source(self) -> tuple[str, list[str], dict[int, tuple[int, int, int, int]]]:
        """A query, the names of its columns, its rows by key."""
        rng = self.rng
        names = draw(rng, 4, False)
        rows = {k: (k, rng.randrange(100), rng.randrange(100), rng.randrange(3)) for k in rng.sample(range(12), 5)}
        values = ", ".join(str(row) for row in rows.values())
        return f"(SELECT * FROM VALUES {values} AS v({', '.join(map(quoted, names))}))", names, rows

    def insert(self) -> None:
        new = {k: (k, k * 10, k % 5, k % 3) for k in range(len(self.rows), len(self.rows) + 4)}
        for key in list(new):
            if key in self.rows:
                del new[key]
        if not new:
            return
        self.rows.update(new)
        columns = ", ".join(map(quoted, self.names))
        self.run(f"INSERT INTO {{t}} ({columns}) VALUES {', '.join(map(str, new.values()))}")

    def update(self) -> None:
        k, v, w, _ = map(quoted, self.names)
        least = self.rng.randrange(8)
        self.run(f"UPDATE {{t}} SET {v} = {v} + {w}, {w} = 7 WHERE {k} >= {least}")
        self.rows = {key: (key, r[1] + r[2], 7, r[3]) if key >= least else r for key, r in self.rows.items()}

    def delete(self) -> None:
        w = quoted(self.names[2])
        which = self.rng.randrange(5)
        self.run(f"DELETE FROM {{t}} WHERE {w} = {which}")
        self.rows = {key: row for key, row in self.rows.items() if row[2] != which}

    def merge(self) -> None:
        query, names, source = self.source()
        k, v, w, p = map(quoted, self.names)
        sk, sv, sw, sp = map(quoted, names)
        clauses = [f"WHEN MATCHED AND t.{w} = 7 THEN DELETE", f"WHEN MATCHED THEN UPDATE SET {v} = s.{sv}"]
        clauses.append(f"WHEN NOT MATCHED THEN INSERT ({k}, {v}, {w}, {p}) VALUES (s.{sk}, s.{sv}, s.{sw}, s.{sp})")
        by_source = self.rng.random() < 0.3
        if by_source:
            clauses.append(f"WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.{w} = 3")
        self.run(f"MERGE INTO {{t}} AS t USING {query} AS s ON t.{k} = s.{sk} {' '.join(clauses)}")
        found = dict(self.rows)
        for key, row in source.items():
            if key not in self.rows:
                found[key] = row
            elif self.rows[key][2] == 7:
                del found[key]
            else:
                found[key] = (key, row[1], *self.rows[key][2:])
        if by_source:
            found.update({key: (*row[:2], 3, row[3]) for key, row in self.rows.items() if key not in source})
        self.rows = found

    def replace(self) -> None:
        k = quoted(self.names[0])
        below = self.rng.randrange(1, 6)
        new = {key: (key, 1, 2, 0) for key in range(below)}
        values = ", ".join(map(str, new.values()))
        self.run(f"INSERT INTO {{t}} REPLACE WHERE {k} < {below} SELECT * FROM VALUES {values}")
        self.rows = {key: row for key, row in self.rows.items() if key >= below} | new

    def overwrite(self) -> None:
        values = ", ".join(map(str, self.rows.values())) or "(0, 0, 0, 0)"
        self.rows = self.rows or {0: (0, 0, 0, 0)}
        self.run(f"INSERT OVERWRITE {{t}} SELECT * FROM VALUES {values}")

    def check(self) -> None:
        found = Counter(tuple(row) for row in self.spark.table(self.table).collect())
        assert found == Counter(self.rows.values()), "\n".join(self.done)

    def check_changes(self) -> None:
        """All changes from the first one on lead to the rows."""
        if not self.change_feed:
            return
        feed = self.spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 0)
        rows: Counter[Any] = Counter()
        for row in feed.load(str(self.path)).collect():
            rows[tuple(row[:4])] += 1 if row[4] in ("insert", "update_postimage") else -1
        assert not -rows, "\n".join(self.done)
        assert +rows == Counter(self.rows.values()), "\n".join(self.done)


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_columns_of_any_name(spark: Any, tmp_path: Path, settings: Any) -> None:
    rng = random.Random(SEED)
    for number in range(EXAMPLES):
        case = Case(spark, tmp_path / f"t{number}", rng)
        ways = {
            "spark.headwater.merge.smallTargetBytes": rng.choice(["0", "8388608"]),
            # By such settings, names and literals of a query mean something else.
            "spark.sql.parser.quotedRegexColumnNames": rng.choice(["false", "true"]),
            "spark.sql.parser.escapedStringLiterals": rng.choice(["false", "true"]),
        }
        with settings(ways):
            case.insert()
            for _ in range(4):
                rng.choice(
                    [case.insert, case.update, case.delete, case.merge, case.merge, case.replace, case.overwrite]
                )()
                case.check()
            case.check_changes()


@pytest.mark.spark
@pytest.mark.parametrize("name", ["_change_type", "_commit_version", "_Commit_Timestamp"])
def test_the_feeds_own_columns_and_a_feed(spark: Any, tmp_path: Path, fails: Any, name: str) -> None:
    on = "'delta.enableChangeDataFeed' = 'true'"
    with fails("DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS", name):
        spark.sql(f"CREATE TABLE delta.`{tmp_path / 'a'}` (id INT, {name} INT) USING delta TBLPROPERTIES ({on})")
    table = f"delta.`{tmp_path / 'b'}`"
    spark.sql(f"CREATE TABLE {table} (id INT, {name} INT) USING delta")
    with fails("DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS", name):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({on})")
    table = f"delta.`{tmp_path / 'c'}`"
    spark.sql(f"CREATE TABLE {table} (id INT) USING delta TBLPROPERTIES ({on})")
    with fails("RESERVED_CDC_COLUMNS_ON_WRITE", name):
        spark.sql(f"ALTER TABLE {table} ADD COLUMN {name} INT")
