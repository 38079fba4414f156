"""Every type that a table can store, its extremes among the values: what statements do is what Spark itself computes.

A statement is drawn about one column of a wide table. What it must leave is a query over the version before it, in
which nothing is filtered or skipped; what a SELECT must find is the rows for which that query has the condition true.
All values are compared as texts that Spark makes, so no value need be one that Python has. ``HEADWATER_TEST_EXAMPLES``
asks for another number of statements, drawn with other seeds.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.dml.checking import version_of

#: Statements about each of the tables, all types among them; half a minute for all on two cores.
EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "5"))
SHAPES = ("vectors", "copies", "partitions")
FIRST_SEED = int(os.environ.get("HEADWATER_TEST_SEED", "0"))
ZONES = ("UTC", "America/Los_Angeles", "Asia/Kolkata")
FACES = r"repeat('\U0001F600', 40)"


@dataclass(frozen=True)
class Kind:
    """A type: its values as SQL, the text that tells any two apart, and conditions of its own, all of ``{}``."""

    sql: str
    values: tuple[str, ...]
    text: str = "CAST({} AS STRING)"
    conditions: tuple[str, ...] = ()
    ordered: bool = True
    #: Whether ``=`` is for this type.
    equated: bool = True

    def value(self, random: Random, nulls: bool = True) -> str:
        chosen = random.choice([*self.values, "NULL"] if nulls else self.values)
        return f"CAST({chosen} AS {self.sql})"


def numbers(sql: str, *values: str) -> Kind:
    return Kind(sql, values, conditions=("{} + 0 = {}", "{} > 0", "{} % 2 = 0"))


def floats(sql: str, least: str, most: str) -> Kind:
    values = ("'NaN'", "'Infinity'", "'-Infinity'", "'-0.0'", "'0.0'", f"'{least}'", f"'{most}'", "'0.1'", "'1e23'")
    return Kind(sql, values, conditions=("isnan({})", "{} > 0", "{} * 2 >= 0.2"))


KINDS = {
    "bool": Kind("BOOLEAN", ("true", "false"), conditions=("{}", "NOT {}")),
    "tiny": numbers("TINYINT", "-128", "127", "0"),
    "small": numbers("SMALLINT", "-32768", "32767", "1"),
    "whole": numbers("INT", "-2147483648", "2147483647", "2"),
    "big": numbers("BIGINT", "'-9223372036854775808'", "9223372036854775807", "9007199254740993"),
    "single": floats("FLOAT", "1.4E-45", "3.4028235E38"),
    "double": floats("DOUBLE", "4.9E-324", "1.7976931348623157E308"),
    "money": numbers("DECIMAL(10,2)", "99999999.99", "-99999999.99", "0", "1.50"),
    "wide": numbers("DECIMAL(38,0)", "9" * 38 + "BD", "-" + "9" * 38 + "BD", "0"),
    "deep": numbers("DECIMAL(38,38)", f"0.{'9' * 38}BD", f"-0.{'9' * 38}BD", "0"),
    "text": Kind(
        "STRING",
        ("''", "' '", "'a'", r"'a\u0000b'", FACES, f"concat({FACES}, 'a')", "repeat('z', 5000)", r"'\uFFFF'",
         r"repeat('\U0010FFFF', 70)", r"repeat('\uD7FF', 33)", r"repeat('\u007f', 33)", r"'it\'s\\ \n'"),
        "hex({})", ("{} LIKE 'a%'", "length({}) > 5", "startswith({}, repeat('z', 40))", "upper({}) = 'A'"),
    ),
    "fixed": Kind("CHAR(4)", ("'a   '", "'abcd'", "'    '"), "hex({})", ("{} = 'a'", "length({}) = 4")),
    "varied": Kind("VARCHAR(40)", ("'a'", "'a '", FACES), "hex({})", ("{} = 'a'", "length({}) = 2")),
    "bytes": Kind("BINARY", ("X''", "X'00'", "X'FF'", "unhex(repeat('FF', 40))"), "hex({})", ("length({}) = 1",)),
    # Not 1582-10-05 to 1582-10-14, and not the ends of 32 and 64 bits: Spark's filters of Parquet files cannot.
    "day": Kind(
        "DATE",
        ("DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'+10000-01-01'", "DATE'-0044-03-15'", "DATE'2024-02-29'",
         "date_from_unix_date(2147483000)", "DATE'-290000-01-01'"),
        "unix_date({})", ("year({}) > 2000", "{} > DATE'1970-01-01'", "date_add({}, -1) < DATE'9999-12-31'"),
    ),
    "moment": Kind(
        "TIMESTAMP",
        ("timestamp_micros(9223372036854775807)", "TIMESTAMP'-290000-01-01 00:00:00'",
         "TIMESTAMP'0001-01-01 00:00:00Z'", "TIMESTAMP'9999-12-31 23:59:59.999999'",
         "TIMESTAMP'+10000-01-01 00:00:00Z'", "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
         "TIMESTAMP'2024-03-10 10:30:00Z'"),
        "unix_micros({})", ("year({}) > 2000", "{} > TIMESTAMP'1970-01-01 00:00:00'"),
    ),
    "clock": Kind(
        "TIMESTAMP_NTZ",
        ("TIMESTAMP_NTZ'+294247-01-10 04:00:54.775807'", "TIMESTAMP_NTZ'-290000-01-01 00:00:00'",
         "TIMESTAMP_NTZ'0001-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
         "TIMESTAMP_NTZ'2024-03-10 02:30:00'"),
        conditions=("year({}) > 2000", "{} > TIMESTAMP_NTZ'1970-01-01 00:00:00'"),
    ),
    "any": Kind(
        "VARIANT",
        ("""parse_json('{"a": 1, "b": "x"}')""", """parse_json('{"a": 2.5, "c": [1, null]}')""",
         """parse_json('{"a": "y"}')""", "parse_json('null')", "parse_json('[1, 2]')", "parse_json('17')"),
        "to_json({})",
        ("variant_get({}, '$.a', 'string') = '1'", "try_variant_get({}, '$.a', 'int') = 1",
         "try_variant_get({}, '$.a', 'double') > 1", "try_variant_get({}, '$.b', 'string') = 'x'",
         "try_variant_get({}, '$[0]', 'bigint') = 1", "is_variant_null({})",
         "schema_of_variant({}) LIKE 'OBJECT%'"),
        ordered=False, equated=False,
    ),
    "pair": Kind(
        "STRUCT<x: INT, y: STRUCT<z: TIMESTAMP, w: STRING>>",
        ("named_struct('x', 1, 'y', named_struct('z', timestamp_micros(0), 'w', 'a'))",
         "named_struct('x', 2, 'y', NULL)", "named_struct('x', NULL, 'y', named_struct('z', NULL, 'w', ''))"),
        "CAST(struct({}.x, unix_micros({}.y.z), {}.y.w, {} IS NULL) AS STRING)",
        ("{}.x = 1", "{}.y.z >= timestamp_micros(0)", "{}.y.w IS NULL"),
    ),
    "list": Kind(
        "ARRAY<STRING>", ("array('a', NULL)", "array()", "array('b', 'a', 'c')"), "to_json(struct({}))",
        ("size({}) > 1", "array_contains({}, 'a')", "exists({}, x -> x > 'a')"),
    ),
    "dict": Kind(
        "MAP<STRING, INT>", ("map('a', 1)", "map()", "map('b', NULL, 'a', 2)"), "to_json(struct({}))",
        ("{}['a'] = 1", "map_contains_key({}, 'b')", "size({}) = 0"), ordered=False, equated=False,
    ),
}  # fmt: skip
PARTITIONABLE = [name for name, kind in KINDS.items() if kind.equated and name not in ("pair", "list", "bytes")]
#: As partition values, texts for which Spark writes a folder that no file system has.
NO_FOLDER = (r"'a\u0000b'", "repeat('z', 5000)", r"repeat('\U0010FFFF', 70)")


class Table:
    """A table of all the types; ``partition`` names columns it is partitioned by."""

    def __init__(self, rows: Any, path: Path, vectors: bool, partition: tuple[str, ...] = ()) -> None:
        self.rows, self.path, self.name, self.partition = rows, path, f"delta.`{path}`", partition
        columns = ", ".join(f"`{name}` {kind.sql}" for name, kind in KINDS.items())
        by = f"PARTITIONED BY ({', '.join(partition)}) " if partition else ""
        rows(
            f"CREATE TABLE {self.name} (k INT, {columns}) USING delta {by}TBLPROPERTIES "
            f"('delta.enableDeletionVectors' = '{str(vectors).lower()}', 'delta.enableChangeDataFeed' = 'true', "
            "'delta.checkpointInterval' = '5', 'delta.checkpoint.writeStatsAsStruct' = 'true')"
        )
        self.texts = ", ".join(f"{kind.text.replace('{}', f't.`{name}`')} AS `{name}`" for name, kind in KINDS.items())

    def value(self, name: str, random: Random) -> str:
        kind = KINDS[name]
        found = kind.value(random)
        while name in self.partition and any(text in found for text in NO_FOLDER):
            found = kind.value(random)
        return found

    def fill(self, random: Random, first: int, count: int) -> None:
        """So many rows more, ``k`` from ``first``, in a few files."""
        given = (
            f"SELECT {k} AS k, {', '.join(f'{self.value(name, random)} AS `{name}`' for name in KINDS)}"
            for k in range(first, first + count)
        )
        self.rows(f"INSERT INTO {self.name} SELECT /*+ REPARTITION(3) */ * FROM ({' UNION ALL '.join(given)})")

    def found(self, query: str) -> list[Any]:
        """A query's rows (alias ``t``) as texts, in order."""
        return sorted(self.rows(f"SELECT k, {self.texts} FROM {query} AS t"), key=repr)


def condition(table: Table, name: str, random: Random) -> str:
    kind, column = KINDS[name], f"t.`{name}`"

    def value() -> str:
        return kind.value(random)

    forms = [f"{column} IS NULL", f"{column} IS NOT NULL", *(each.replace("{}", column) for each in kind.conditions)]
    if kind.equated:
        forms += [f"{column} = {value()}", f"{column} <=> {value()}", f"{column} IN ({value()}, {value()})"] * 2
    if kind.ordered:
        forms += [
            f"{column} {random.choice(('<', '<=', '>', '>=', '<>'))} {value()}",
            f"{column} BETWEEN {value()} AND {value()}",
            f"NOT ({column} > {value()})",
        ]
    found = random.choice(forms)
    return random.choice([found] * 3 + [f"({found} AND t.k % 2 = 0)", f"({found} OR t.k = 3)"])


def assigned(table: Table, name: str, random: Random) -> str:
    """A value for the column."""
    value, column = table.value(name, random), f"t.`{name}`"
    when = condition(table, random.choice(list(KINDS)), random)
    return random.choice([value, f"coalesce({column}, {value})", f"CASE WHEN {when} THEN {value} ELSE {column} END"])


def projected(values: dict[str, str]) -> str:
    """The select list of rows in which some columns have other values."""
    return ", ".join(f"{values.get(name, f't.`{name}`')} AS `{name}`" for name in ("k", *KINDS))


def statement(table: Table, before: str, name: str, random: Random) -> tuple[str, str]:
    """A statement about a column, and the relation of the rows it must leave."""
    where = condition(table, name, random)
    what = random.choice(("update", "update", "delete", "merge", "merge on"))
    if what == "delete":
        return (
            f"DELETE FROM {table.name} AS t WHERE {where}",
            f"(SELECT * FROM {before} AS t WHERE NOT ifnull({where}, false))",
        )
    if what == "update":
        value = assigned(table, name, random)
        new = projected({name: f"CASE WHEN {where} THEN CAST({value} AS {KINDS[name].sql}) ELSE t.`{name}` END"})
        return f"UPDATE {table.name} AS t SET `{name}` = {value} WHERE {where}", f"(SELECT {new} FROM {before} AS t)"
    keys = random.sample(range(1, 12), 3)
    source = " UNION ALL ".join(f"SELECT {k} AS k, {table.value(name, random)} AS `{name}`" for k in keys)
    on = "t.k = s.k"
    if what == "merge on" and KINDS[name].equated:
        on += f" AND t.`{name}` = s.`{name}`"
        new = projected({"k": "CASE WHEN s.k IS NULL THEN t.k ELSE -t.k END"})
        action = "UPDATE SET k = -t.k"
    else:
        new = projected({name: f"CASE WHEN s.k IS NOT NULL AND {where} THEN s.`{name}` ELSE t.`{name}` END"})
        action = f"UPDATE SET `{name}` = s.`{name}`"
    acting = f"WHEN MATCHED{'' if 'SET k' in action else f' AND {where}'} THEN {action}"
    nulls = ", ".join(f"{f's.`{other}`' if other == name else 'NULL'}" for other in KINDS)
    left = f"(SELECT {new} FROM {before} AS t LEFT JOIN ({source}) AS s ON {on}"
    added = f" UNION ALL SELECT s.k, {nulls} FROM ({source}) AS s LEFT ANTI JOIN {before} AS t ON {on})"
    inserting = f"WHEN NOT MATCHED THEN INSERT (k, `{name}`) VALUES (s.k, s.`{name}`)"
    return f"MERGE INTO {table.name} AS t USING ({source}) AS s ON {on} {acting} {inserting}", left + added


def check(table: Table, name: str, random: Random, settings: Any) -> None:
    """One SELECT and one statement about a column, in a session of any zone, ANSI or not, by any strategy."""
    given = {
        "spark.sql.session.timeZone": random.choice(ZONES),
        "spark.sql.ansi.enabled": random.choice(("true", "false")),
        "spark.headwater.merge.smallTargetBytes": random.choice(("0", str(1 << 30))),
        "spark.headwater.dml.lateFileBytes": random.choice(("0", str(1 << 30))),
    }
    with settings(given):
        before = f"(SELECT * FROM {table.name} VERSION AS OF {version_of(table.path)})"
        asked = condition(table, name, random)
        marked = table.rows(f"SELECT k, {asked} FROM {table.name} AS t")
        met = sorted(k for k, holds in marked if holds)
        told = f"{asked}\n{given}"
        assert sorted(k for (k,) in table.rows(f"SELECT k FROM {table.name} AS t WHERE {asked}")) == met, told
        text, wanted = statement(table, before, name, random)
        expected = table.found(wanted)
        table.rows(text)
        assert table.found(table.name) == expected, f"{text}\n{given}"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.random
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("shape", [pytest.param(s, marks=pytest.mark.soak) if s == "copies" else s for s in SHAPES])
def test_statements_about_any_type_do_what_spark_computes(rows: Any, tmp_path: Path, settings: Any, shape: str) -> None:
    numbers_of_tables = itertools.count()
    names = list(KINDS)
    Random(FIRST_SEED).shuffle(names)
    start = len(names) * SHAPES.index(shape) // len(SHAPES)
    names = names[start:] + names[:start]
    table = None
    for i, name in zip(range(EXAMPLES), itertools.cycle(names), strict=False):
        random = Random(f"{shape} {FIRST_SEED + i}")
        if table is None or i % 40 == 0:
            partition = tuple(random.sample(PARTITIONABLE, 2)) if shape == "partitions" else ()
            table = Table(rows, tmp_path / f"t{next(numbers_of_tables)}", shape == "vectors", partition)
        if i % 5 == 0:
            table.fill(random, 1 + i, 8)
        try:
            check(table, name, random, settings)
        except Exception as error:
            raise AssertionError(f"seed {FIRST_SEED + i}, {shape}, {table.partition}: {error}") from error
