"""Filters about the smallest and largest values of each type find the rows that plain Parquet files have for them.

A row holds, in each column, one of its type's extreme values. The expected rows come from Spark's own Parquet files,
where the conditions are computed as columns, so that neither pruning nor pushdown takes part. The same conditions then
filter tables of the same rows: a row a file, several rows a file, and the values as partition values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

#: The extreme values of each column, by name. All are expressions without a column, which become literals.
VALUES: dict[str, tuple[str, ...]] = {
    "y TINYINT": ("-128Y", "-127Y", "-1Y", "0Y", "126Y", "127Y"),
    "h SMALLINT": ("-32768S", "-32767S", "0S", "127S", "32766S", "32767S"),
    "i INT": ("-2147483648", "-2147483647", "-1", "0", "2147483646", "2147483647"),
    "l BIGINT": (
        "-9223372036854775808L",
        "-9223372036854775807L",
        "-9007199254740993L",
        "0L",
        "9007199254740993L",
        "9223372036854775806L",
        "9223372036854775807L",
    ),
    "f FLOAT": (
        "float('-Infinity')",
        "float('-3.4028235E38')",
        "-0.0F",
        "0.0F",
        "float('1.4E-45')",
        "float('0.1')",
        "float('16777216')",
        "float('3.4028235E38')",
        "float('Infinity')",
        "float('NaN')",
    ),
    "d DOUBLE": (
        "double('-Infinity')",
        "double('-1.7976931348623157E308')",
        "-0.0D",
        "0.0D",
        "double('4.9E-324')",
        "0.1D",
        "9007199254740992D",
        "double('1.7976931348623157E308')",
        "double('Infinity')",
        "double('NaN')",
    ),
    "c DECIMAL(9, 2)": ("-9999999.99BD", "-0.01BD", "0.00BD", "0.01BD", "9999999.99BD"),
    "e DECIMAL(18, 0)": ("-999999999999999999BD", "-1BD", "0BD", "999999999999999998BD", "999999999999999999BD"),
    "g DECIMAL(38, 10)": (
        f"-{'9' * 28}.{'9' * 10}BD",
        "-0.0000000001BD",
        "0.0000000000BD",
        f"{'9' * 28}.{'9' * 9}8BD",
        f"{'9' * 28}.{'9' * 10}BD",
    ),
    "a DATE": (
        "date_from_unix_date(-2147000000)",  # Spark fails to convert the very first ones in filters
        "DATE'-0001-12-31'",
        "DATE'0000-01-01'",
        "DATE'0001-01-01'",
        "DATE'1000-02-28'",
        "DATE'1582-10-04'",
        "DATE'1582-10-10'",
        "DATE'1582-10-15'",
        "DATE'1969-12-31'",
        "DATE'9999-12-31'",
        "DATE'+10000-01-01'",
        "date_from_unix_date(2147483647)",
    ),
    "w DATE": ("DATE'-0001-12-31'", "DATE'0001-01-01'", "DATE'1582-10-10'", "DATE'1969-12-31'", "DATE'9999-12-31'"),
    "t TIMESTAMP": (
        "timestamp_micros(-9222000000000000000L)",
        "TIMESTAMP'-0001-12-31 23:59:59.999999Z'",
        "TIMESTAMP'0001-01-01 00:00:00Z'",
        "TIMESTAMP'1582-10-10 00:00:00.000001Z'",
        "TIMESTAMP'1582-10-15 00:00:00Z'",
        "TIMESTAMP'1883-11-18 12:03:57.999999'",
        "TIMESTAMP'1899-12-31 23:59:59.999999Z'",
        "TIMESTAMP'1900-01-01 00:00:00Z'",
        "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
        "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
        "TIMESTAMP'+10000-01-01 00:00:00Z'",
        "timestamp_micros(9223372036854775807L)",
    ),
    "n TIMESTAMP_NTZ": (
        "TIMESTAMP_NTZ'-290308-12-21 19:59:05.224192'",
        "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ'1582-10-10 00:00:00.000001'",
        "TIMESTAMP_NTZ'1899-12-31 23:59:59.999999'",
        "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'",
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
        "TIMESTAMP_NTZ'+10000-01-01 00:00:00'",
        "TIMESTAMP_NTZ'+294247-01-10 04:00:54.775807'",
    ),
    "u TIMESTAMP": (
        "TIMESTAMP'0001-01-01 00:00:00'",
        "TIMESTAMP'1582-10-10 00:00:00'",
        "TIMESTAMP'1899-12-31 23:59:59.999999'",
        "TIMESTAMP'9999-12-31 00:00:00'",
    ),
    "m TIMESTAMP_NTZ": (
        "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
        "TIMESTAMP_NTZ'1582-10-10 00:00:00'",
        "TIMESTAMP_NTZ'1899-12-31 23:59:59.999999'",
        "TIMESTAMP_NTZ'9999-12-31 00:00:00'",
    ),
    "b BOOLEAN": ("true", "false"),
    "s STRING": ("''", "'\\u0000'", "'\\uffff'", "'\\U0010FFFF'", "repeat('\\U0010FFFF', 80)", "repeat('x', 80)"),
}  # fmt: skip
COLUMNS = {column.partition(" ")[0]: values for column, values in VALUES.items()}
#: Beyond the ends of a column's type, or of another type: Spark casts the column, the value, or neither. Casts between
#: dates and times fail for the very ends, in every table; so they are compared in columns without those.
BEYOND = {
    "y": ("128", "-129", "127.5D", "double('NaN')", "'127'"),
    "h": ("32768", "-32769L"),
    "i": ("2147483648L", "-2147483649L", "2147483647.5D", "double('Infinity')", "16777217F", "99999999999.5BD"),
    "l": ("9223372036854775808BD", "-9223372036854775809BD", "9223372036854775807D", "double('NaN')", "9e18F"),
    "f": ("0.1D", "3.5E38D", "double('NaN')", "16777217", "0.1BD"),
    "d": ("0.1F", "9007199254740993L", "9223372036854775807L", "float('Infinity')"),
    "c": ("10000000.00BD", "0.005BD", "2147483647", "1e300D"),
    "e": ("1000000000000000000BD", "9223372036854775807L", "0.5BD"),
    "w": ("TIMESTAMP'1582-10-10 00:00:00'", "TIMESTAMP'0001-01-01 00:00:00.000001'", "'1582-10-10'"),
    "u": ("DATE'1582-10-10'", "TIMESTAMP_NTZ'1899-12-31 23:59:59.999999'", "DATE'9999-12-31'"),
    "m": ("DATE'1582-10-10'", "TIMESTAMP'1899-12-31 23:59:59.999999'", "'1582-10-10'"),
}
ROWS = max(map(len, VALUES.values())) + 1


def conditions() -> Iterator[str]:
    """Comparisons of each column with each value, and some lists, ranges and others."""
    for name, own in COLUMNS.items():
        for operator in ("=", "<", "<=", ">", ">=", "<=>", "!="):
            yield from (f"{name} {operator} {value}" for value in (*own, *BEYOND.get(name, ())))
        yield from (f"{name} IN ({first}, {last})" for first, last in pairwise(own))
        yield f"{name} = {own[0]} OR {name} >= {own[-1]}"
        yield f"NOT ({name} > {own[0]} AND {name} < {own[-1]})"
        yield f"{name} BETWEEN {own[0]} AND {own[len(own) // 2]}"
        yield f"{name} NOT IN ({own[0]}, {own[-1]})"
        yield f"{name} IN ({', '.join(own)})"
    for name in ("y", "h", "i", "l"):
        more = ", ".join(f"CAST({n} AS {'TINYINT' if name == 'y' else 'SMALLINT'})" for n in range(1, 12))
        yield f"{name} IN ({more}, {COLUMNS[name][0]}, {COLUMNS[name][-1]})"
    yield from ("i < l", "y = h", "f = d", "c < e", "-l > 0", "d IS NULL OR d > 1e308D", "w = m", "m < u")
    yield from ("CAST(w AS TIMESTAMP) <= u", "w = CAST(u AS DATE)", "CAST(t AS DATE) = DATE'1582-10-10'")
    yield from ("year(a) = 1582", "year(t) <= 1")


def some(every: list[str]) -> list[str]:
    """As many conditions as a run has time for, and always those that Spark's own filters get wrong."""
    random = Random(os.environ.get("HEADWATER_TEST_SEED", "the ends"))
    count = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "30"))
    old = [c for c in every if c.startswith(("w =", "w >", "u =", "u >")) and ("'1582" in c or "'1899" in c)]
    return list(dict.fromkeys([*old, *random.sample(every, min(count, len(every)))]))


@pytest.fixture(
    params=[
        pytest.param(("single", "America/Los_Angeles"), marks=pytest.mark.soak),
        ("several", "UTC"),
        ("parted", "America/Los_Angeles"),
    ],
    ids=["a row a file", "several rows a file", "partition values"],
)
def table(request, spark, settings, database):
    """A Delta table with the rows of the table ``plain``, which is plain Parquet."""
    kind, zone = request.param
    given = {
        "spark.sql.session.timeZone": zone,
        # Arithmetic that leaves the range of a type is null.
        "spark.sql.ansi.enabled": "false",
        # Few tasks, and nothing compiled.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.minPartitionNum": "1",
    }
    with settings(given):
        cases = ", ".join(
            f"CASE id {' '.join(f'WHEN {n} THEN {value}' for n, value in enumerate(values))} END"
            for values in COLUMNS.values()
        )
        shape = f"(k INT, {', '.join(VALUES)})"
        spark.sql(f"CREATE TABLE plain {shape} USING parquet")
        spark.sql(f"INSERT INTO plain SELECT CAST(id AS INT), {cases} FROM range({ROWS})")
        # Text is left out where it is too long for a directory's name.
        parted = f"PARTITIONED BY ({', '.join(name for name in COLUMNS if name != 's')})" if kind == "parted" else ""
        spark.sql(f"CREATE TABLE {kind} {shape} USING delta {parted}")
        files = 4 if kind == "several" else ROWS
        spark.sql(f"INSERT INTO {kind} BY NAME SELECT /*+ REPARTITION_BY_RANGE({files}, k) */ * FROM plain")
        yield kind


@pytest.mark.random
def test_filters_at_the_ends(table, rows):
    asked = some(list(conditions()))
    expected: list[list[int]] = [[] for _ in asked]
    for k, *met in rows(f"SELECT k, {', '.join(asked)} FROM plain"):
        for n, is_met in enumerate(met):
            if is_met:
                expected[n].append(k)
    assert sum(map(len, expected)) > len(asked)
    found: list[list[int]] = [[] for _ in asked]
    for start in range(0, len(asked), 50):
        some_of_them = range(start, min(start + 50, len(asked)))
        for n, k in rows(" UNION ALL ".join(f"SELECT {n}, k FROM {table} WHERE {asked[n]}" for n in some_of_them)):
            found[n].append(k)
    wrong = [
        f"{condition}: {sorted(got)}, not {sorted(want)}"
        for condition, got, want in zip(asked, found, expected, strict=True)
        if sorted(got) != sorted(want)
    ]
    assert not wrong, "\n".join(wrong)
