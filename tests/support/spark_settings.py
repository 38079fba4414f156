"""Spark's own SQL settings: the values that a session may give them, and a story whose result must follow from none.

Owns :func:`flips`, every other value of each boolean and enumerated setting, and :func:`story`, the statements of a
table's life with all that they show. :func:`culprits` finds, among many settings flipped at once, those that change it.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A setting, and the value that is not its default.
Flip = tuple[str, str]

#: Settings, by how their names begin, whose other values ask Spark itself for something else; and for what.
LEFT_OUT: Mapping[str, str] = {
    "spark.sql.analyzer.singlePassResolver.": "an analyzer without the rules of extensions",
    "spark.sql.charAsVarchar": "VARCHAR in place of CHAR in a definition",
    "spark.sql.defaultColumn.": "no DEFAULT in a definition, or an error for a value that is missing",
    "spark.sql.legacy.charVarcharAsString": "STRING in place of the types that a definition names",
    "spark.sql.parquet.compression.codec": "libraries that may not be there",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "an error for old times",
    "spark.sql.preserveCharVarcharTypeInfo": "types in plans that no table has",
    "spark.sql.runSQLOnFiles": "no tables by their paths",
}

_LISTED = re.compile(r"one of:? '?\[?([^'\]]+)")
_OF_A_LOG = ("loglevel", "log.level")


def flips(spark: SparkSession) -> list[Flip]:
    """Each boolean and enumerated setting that a session may change, with every value but its own."""
    jvm, conf = spark._jvm, spark.newSession().conf
    found: list[Flip] = []
    entries = getattr(getattr(jvm.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$").getConfigEntries().toArray()
    for entry in entries:
        key = entry.key()
        if conf.isModifiable(key) and not key.startswith(tuple(LEFT_OUT)) and not key.lower().endswith(_OF_A_LOG):
            now = "" if entry.defaultValueString() == "<undefined>" else conf.get(key)
            found += [(key, value) for value in _others(jvm, key, now)]
    return sorted(found)


def _others(jvm: Any, key: str, now: str) -> list[str]:
    values = ["true", "false"]
    if now not in values:
        try:
            jvm.org.apache.spark.sql.internal.SQLConf().setConfString(key, "no such value")
            return []
        except PySparkException as error:
            if "'boolean'" not in str(error):
                listed = _LISTED.search(str(error))
                values = listed.group(1).split(", ") if listed else []
    return [value for value in values if value.upper() != now.upper()]


def story(spark: SparkSession, at: Path, given: Mapping[str, str]) -> list[tuple[str, Any]]:
    """What each statement of a table's life shows in a session with other settings, and what the table has after it."""
    shutil.rmtree(at, ignore_errors=True)
    flipped, plain = spark.newSession(), spark.newSession()
    for key, value in given.items():
        flipped.conf.set(key, value)
    shown: list[tuple[str, Any]] = []
    table = f"delta.`{at}`"
    restored = ""
    for text in STATEMENTS:
        if text.startswith("RESTORE"):
            then = next((row.timestamp for row in history(plain, table) if row.version == 2), None)
            restored = "never" if then is None else then.isoformat(sep=" ", timespec="milliseconds")
        statement = text.format(t=table, path=at, then=restored)
        shown.append((text, _answer(flipped, statement)))
        if not statement.startswith("SELECT"):
            shown.append((f"rows after {text}", _answer(plain, f"SELECT * FROM {table} ORDER BY ALL")))
        time.sleep(0.002)  # versions have times of their own
    shown.append(("history", [(row.version, row.operation) for row in history(flipped, table)]))
    shown.append(("columns", _answer(plain, f"SELECT * FROM {table} WHERE false", lambda rows: rows.schema.json())))
    return shown


def history(spark: SparkSession, table: str) -> list[Any]:
    try:
        return spark.sql(f"DESCRIBE HISTORY {table}").collect()
    except PySparkException:
        return []


def _answer(spark: SparkSession, text: str, shown: Callable[[Any], Any] | None = None) -> Any:
    try:
        found = spark.sql(text)
        if shown is not None:
            return shown(found)
        return [tuple(row) for row in found.collect()] if text.startswith("SELECT") else "done"
    except PySparkException as error:
        return error.getCondition()
    except Py4JJavaError as error:
        return error.java_exception.getClass().getName()


STATEMENTS = (
    "CREATE TABLE {t} (id INT NOT NULL, ts TIMESTAMP_LTZ, n TIMESTAMP_NTZ, s STRING DEFAULT 'none', c CHAR(3), "
    "v DECIMAL(10, 2), st STRUCT<a: INT, at: TIMESTAMP_LTZ>, items ARRAY<STRING>, "
    "hh TIMESTAMP_LTZ GENERATED ALWAYS AS (date_trunc('HOUR', ts)), "
    "dd DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), "
    "nn TIMESTAMP_NTZ GENERATED ALWAYS AS (CAST(n AS TIMESTAMP_NTZ))) USING delta "
    "PARTITIONED BY (hh) "
    "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true', "
    "'delta.feature.allowColumnDefaults' = 'supported')",
    "INSERT INTO {t} (id, ts, n, s, c, v, st, items) SELECT id, "
    "TIMESTAMP_LTZ '2024-03-01 10:20:30' + make_interval(0, 0, 0, id), "
    "TIMESTAMP_NTZ '2024-03-01 10:20:30' + make_interval(0, 0, 0, id), concat('s', id), "
    "'abc', CAST(id * 1.25 AS DECIMAL(10, 2)), "
    "named_struct('a', id, 'at', TIMESTAMP_LTZ '2024-03-01 01:02:03'), array('x', NULL) "
    "FROM VALUES (1), (2), (3), (4) AS v(id)",
    "INSERT INTO {t} (id, ts, n) SELECT 5, TIMESTAMP_LTZ '1890-01-01 00:00:01', CAST(NULL AS TIMESTAMP_NTZ)",
    "ALTER TABLE {t} ADD CONSTRAINT early CHECK (id < 100 AND (s IS NULL OR s <> 'x') "
    "AND ts < to_timestamp('3000-01-01'))",
    "INSERT INTO {t} (id, ts) SELECT 100, TIMESTAMP_LTZ '2024-03-01 00:00:00'",
    "UPDATE {t} SET s = concat(s, '!'), ts = ts + INTERVAL '1' HOUR WHERE id = 2",
    "MERGE INTO {t} AS t USING (SELECT id, concat('m', id) AS s FROM VALUES (3), (9) AS v(id)) AS u ON t.id = u.id "
    "WHEN MATCHED THEN UPDATE SET s = u.s "
    "WHEN NOT MATCHED THEN INSERT (id, s, ts) VALUES (u.id, u.s, TIMESTAMP_LTZ '2024-03-05 05:06:07')",
    "DELETE FROM {t} WHERE ts < TIMESTAMP_LTZ '1900-01-01 00:00:00' OR id = 1",
    "INSERT INTO {t} REPLACE WHERE id = 4 SELECT 4, ts, n, 'again', c, v, st, items, hh, dd, nn FROM {t} WHERE id = 4",
    "SELECT id, s, v, c FROM {t} WHERE hh > TIMESTAMP_LTZ '2024-01-01 00:00:00' AND id BETWEEN 2 AND 50 ORDER BY id",
    "OPTIMIZE {t} ZORDER BY (n, id, c)",
    "SELECT id, s, _change_type, _commit_version FROM table_changes_by_path('{path}', 2) "
    "ORDER BY _commit_version, id, _change_type, s",
    "RESTORE TABLE {t} TO TIMESTAMP AS OF 'no time at all'",
    "RESTORE TABLE {t} TO TIMESTAMP AS OF '{then}'",
    "SELECT count(*), min(id), max(s) FROM {t}",
)


def culprits(candidates: Sequence[Flip], changes: Callable[[Iterable[Flip]], bool]) -> list[Flip]:
    """The settings of which one alone changes the story; all of them, where it takes several at once."""
    if not changes(candidates):
        return []
    if len(candidates) == 1:
        return list(candidates)
    half = len(candidates) // 2
    return culprits(candidates[:half], changes) + culprits(candidates[half:], changes) or list(candidates)


def groups(candidates: Sequence[Flip], size: int) -> list[list[Flip]]:
    """The settings in groups that one session can have: no setting twice in one."""
    made: list[dict[str, str]] = []
    for key, value in candidates:
        room = next((group for group in made if len(group) < size and key not in group), None)
        if room is None:
            made.append(room := {})
        room[key] = value
    return [list(group.items()) for group in made]
