"""The hash of a key is the same in Spark's queries and in Python, for every kind of value."""

from __future__ import annotations

import string
from decimal import Context, Decimal
from random import Random
from typing import Any

import pytest

from headwater.key_index.hashing import hash_of, kind_of
from headwater.protocol.types import StructField, parse_type
from headwater.sql.composing import FOR_SPARK, Column
from headwater.statements.files.key_hashes import hash_expression

_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_SQL = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT", "string": "STRING"}


def drawn(random: Random, kind: str) -> Any:
    """A random value, as a literal of a predicate has it."""
    if kind in _BITS:
        return random.choice([0, 1, -1, 2 ** _BITS[kind] - 1, -(2 ** _BITS[kind]), random.getrandbits(_BITS[kind])])
    if kind == "date":
        return random.randrange(-700_000, 2_900_000)
    if kind == "timestamp":
        return random.randrange(-(6 * 10**16), 2 * 10**17)
    if kind == "string":
        letters = string.ascii_letters + " 'äß\u4e2d\U0001f600\x00\n\\"
        return "".join(random.choice(letters) for _ in range(random.choice([0, 1, 3, 7, 8, 31, 32, 33, 100])))
    precision, scale = map(int, kind[len("decimal(") : -1].split(","))
    digits = random.randrange(1, precision + 1)
    whole = random.choice([0, 1, -1, 127, -128, 128, 255, -256, 10**digits - 1, -(10**digits) + 1])
    return format(Context(prec=80).scaleb(Decimal(whole if abs(whole) < 10**precision else 7), -scale), "f")


def sql(kind: str, value: Any) -> str:
    if value is None:
        return "NULL"
    if kind == "date":
        return f"date_from_unix_date({value})"
    if kind == "timestamp":
        return f"timestamp_micros({value}L)"
    if kind == "string":
        return f"decode(X'{value.encode().hex()}', 'UTF-8')"
    if kind in _BITS:
        return f"CAST('{value}' AS {_SQL[kind]})"
    return f"CAST('{value}' AS {kind})"


KINDS = [*_BITS, "string", "date", "timestamp", "decimal(5,2)", "decimal(18,0)", "decimal(20,3)", "decimal(38,10)"]


@pytest.mark.random
@pytest.mark.parametrize("zone", ["America/New_York", pytest.param("UTC", marks=pytest.mark.soak)])
def test_spark_and_python_hash_alike(spark: Any, zone: str) -> None:
    random, asked = Random(zone), []
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for number in range(25):
            kinds = [random.choice(KINDS) for _ in range(random.choice([1, 1, 2, 3]))]
            if number < len(KINDS):
                kinds = [KINDS[number]]
            columns = [StructField(f"c{i}", parse_type(kind)) for i, kind in enumerate(kinds)]
            text = hash_expression(columns, [Column(column.name) for column in columns]).text(FOR_SPARK)
            hashed = [kind for column in columns if (kind := kind_of(column)) is not None]
            for _ in range(5):
                values = [drawn(random, kind) for kind in kinds]
                given = zip(columns, kinds, values, strict=True)
                row = ", ".join(f"{sql(kind, value)} AS {column.name}" for column, kind, value in given)
                asked.append((f"SELECT {text} AS h FROM (SELECT {row})", hash_of(hashed, values), kinds, values))
        found = [row.h for start in range(0, len(asked), 40) for row in _together(spark, asked[start : start + 40])]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for hashed, (_, expected, kinds, values) in zip(found, asked, strict=True):
        assert hashed == expected, (kinds, values)
        assert 0 <= hashed < 1 << 48


def _together(spark: Any, asked: list[Any]) -> list[Any]:
    queries = [f"SELECT {n} AS n, * FROM ({query})" for n, (query, *_) in enumerate(asked)]
    return list(spark.sql(" UNION ALL ".join(queries)).orderBy("n").collect())


def test_a_wider_whole_number_has_the_same_hash() -> None:
    kinds = {kind_of(StructField("c", parse_type(kind))) for kind in _BITS}
    assert kinds == {"integer"}


@pytest.mark.parametrize("kind", ["double", "float", "boolean", "binary", "timestamp_ntz", "variant"])
def test_types_without_a_kind(kind: str) -> None:
    assert kind_of(StructField("c", parse_type(kind))) is None


@pytest.mark.parametrize(
    "metadata", [{"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}, {"__COLLATIONS": {"c": "icu.UNICODE"}}]
)
def test_texts_that_are_equal_though_their_bytes_differ(metadata: dict[str, Any]) -> None:
    assert kind_of(StructField("c", parse_type("string"), True, metadata)) is None
