"""What the tests' predicate texts are read as."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headwater.protocol.types import DecimalType, PrimitiveType
from headwater.pruning.predicates import (
    UNKNOWN,
    And,
    Cast,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
    Year,
    literal,
)
from support.predicate_text import parse_predicate
from support.predicate_text.text import decode_string

A, B, C = Column(("a",)), Column(("b",)), Column(("c",))


def value(text: str, time_zone: str = "UTC") -> Literal | None:
    """The literal that is compared with ``a``, if it was understood."""
    parsed = parse_predicate(f"(`a` = {text})", time_zone)
    return parsed.right if isinstance(parsed, Comparison) and isinstance(parsed.right, Literal) else None


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("5", "integer", 5),
        ("-5", "integer", -5),
        ("-2147483648", "integer", -(2**31)),
        ("5L", "long", 5),
        ("-9223372036854775808L", "long", -(2**63)),
        ("5S", "short", 5),
        ("CAST('-5' AS BIGINT)", "long", -5),
        ("5Y", "byte", 5),
        ("1.0D", "double", 1.0),
        ("-1.5E-10D", "double", -1.5e-10),
        ("CAST('Infinity' AS DOUBLE)", "double", float("inf")),
        ("CAST('0.1' AS FLOAT)", "float", 0.10000000149011612),
        ("1.0F", "float", 1.0),
        ("'x'", "string", "x"),
        ("true", "boolean", True),
        ("DATE '2020-02-29'", "date", 18321),
        ("DATE '+10000-01-01'", "date", 2_932_897),
        ("DATE '-0044-03-15'", "date", -735_525),
        ("TIMESTAMP '+10000-01-01 00:00:00'", "timestamp", 253_402_300_800_000_000),
        ("TIMESTAMP '0000-12-31 23:59:59'", "timestamp", -62_135_596_801_000_000),
        ("TIMESTAMP_NTZ '+294247-01-10 04:00:54.775807'", "timestamp_ntz", 2**63 - 1),
        ("TIMESTAMP '1970-01-01 00:00:01.5'", "timestamp", 1_500_000),
        ("TIMESTAMP '1969-12-31 23:59:59.999999'", "timestamp", -1),
        ("TIMESTAMP '1970-01-01 02:00:00+02:00'", "timestamp", 0),
        ("TIMESTAMP_NTZ '1970-01-02 00:00:00'", "timestamp_ntz", 86_400_000_000),
    ],
)
def test_literals_carry_their_type(text: str, kind: str, expected: object) -> None:
    assert value(text) == literal(PrimitiveType(kind), expected)


def test_decimal_literals_are_exact() -> None:
    assert value("1.50BD") == literal(DecimalType(3, 2), Decimal("1.50"))
    assert value("-0.0000001BD") == literal(DecimalType(7, 7), Decimal("-1E-7"))
    assert value("12345678901234567890123456789012345678BD") is not None
    assert value("123456789012345678901234567890123456789BD") is None


@pytest.mark.parametrize(
    "text",
    [
        "X'00FF'",
        "INTERVAL '1' DAY",
        "TIME '12:00:00'",
        "DATE '2020-02-30'",
        "TIMESTAMP 'yesterday'",
        "'x' collate UTF8_LCASE",
        "CAST('2020-01-01 00:00:00' AS TIMESTAMP)",  # in a zone the text does not tell
        "CAST(' 5' AS INT)",
        "CAST('300' AS TINYINT)",
        "CAST(5.5BD AS INT)",
        "CAST('1.55' AS DECIMAL(2,1))",
        "CAST('x' AS CHAR(3))",
        "'a''b'",
        "'\\ud800'",
        "current_date()",
    ],
)
def test_what_is_not_certain_is_no_literal(text: str) -> None:
    assert value(text) is None


def test_timestamps_without_a_zone_are_in_the_given_one() -> None:
    shifted = value("TIMESTAMP '1970-01-01 00:00:00'", "America/New_York")
    assert shifted is not None
    assert shifted.value == 5 * 3_600_000_000
    skipped = value("TIMESTAMP '2024-03-10 02:30:00'", "America/New_York")
    shifted = value("TIMESTAMP '2024-03-10 03:30:00'", "America/New_York")
    assert skipped == shifted
    assert value("TIMESTAMP '1970-01-01 00:00:00'", "+01:00") == literal(PrimitiveType("timestamp"), -3_600_000_000)
    assert value("TIMESTAMP '1970-01-01 00:00:00'", "Nowhere/Land") is None


@pytest.mark.parametrize(
    ("quoted", "expected"),
    [
        (r"a\\b\'c", "a\\b'c"),
        (r"\n\t\r\b\0\Z", "\n\t\r\b\0\x1a"),
        (r"\%\_\q", "\\%\\_q"),
        (r"\u00e9\U0001F600\ud83d\ude00\101", "é😀😀A"),
        (r"\u00e", "u00e"),
        (r"\ud800", None),
        (r"\UFFFFFFFF", None),
    ],
)
def test_strings_are_unescaped_as_spark_does(quoted: str, expected: str | None) -> None:
    assert decode_string(quoted) == expected


def test_quotes_inside_strings_and_names_do_not_end_them() -> None:
    assert value(r"'it\'s (a) AND `b` = \"1\" -- /*'") == Literal("string", 'it\'s (a) AND `b` = "1" -- /*')
    assert parse_predicate("(`a``b' OR c.d` = 1)", "UTC") == Comparison(
        "=", Column(("a`b' OR c.d",)), literal(PrimitiveType("integer"), 1)
    )


def test_and_binds_tighter_than_or_and_not_tightest() -> None:
    truth = [Comparison("=", c, literal(PrimitiveType("boolean"), True)) for c in (A, B, C)]
    assert parse_predicate("`a` OR `b` AND NOT `c`", "UTC") == Or((truth[0], And((truth[1], Not(truth[2])))))
    assert parse_predicate("(`a` OR `b`) AND `c`", "UTC") == And((Or((truth[0], truth[1])), truth[2]))
    assert parse_predicate("NOT (NOT `a`) OR `b`", "UTC") == Or((Not(Not(truth[0])), truth[1]))


def test_each_form_of_a_predicate_is_read() -> None:
    one, two = (literal(PrimitiveType("integer"), n) for n in (1, 2))
    cases = {
        "(`a`.`b`.`c`.`d`.`e` = 1)": Comparison("=", Column(("a", "b", "c", "d", "e")), one),
        "(`a` > 1)": Comparison("<", one, A),
        "(`a` >= 1)": Comparison("<=", one, A),
        "(1 < `a`)": Comparison("<", one, A),
        "(`a` != 1)": Not(Comparison("=", A, one)),
        "(NOT (`a` <=> 1))": Not(Comparison("<=>", A, one)),
        "(`a` <=> CAST(NULL AS INT))": IsNull(A),
        "(`a` = CAST(NULL AS INT))": Constant(None),
        "(`a` IS NULL)": IsNull(A),
        "(`a` IS NOT NULL)": Not(IsNull(A)),
        "isnotnull(`a`)": Not(IsNull(A)),
        "(`a` IN (1, CAST(NULL AS INT)))": In(A, "integer", (1, None)),
        "`a` NOT IN (1, 2)": Not(In(A, "integer", (1, 2))),
        "`a` BETWEEN 1 AND 2 AND `b` = 1": And(
            (And((Comparison("<=", one, A), Comparison("<=", A, two))), Comparison("=", B, one))
        ),
        "(`b` = 1) AND (NOT between(`a`, 1, 2))": And(
            (Comparison("=", B, one), Not(And((Comparison("<=", one, A), Comparison("<=", A, two)))))
        ),
        "startswith(`a`, 'x')": StartsWith(A, "x"),
        "`a` LIKE 'x%'": Like(A, "x%", "\\"),
        "`a` NOT LIKE 'x%y'": Not(Like(A, "x%y", "\\")),
        r"`a` LIKE '\\%%'": Like(A, r"\%%", "\\"),
        "`a` LIKE '/%%' ESCAPE '/'": Like(A, "/%%", "/"),
        "(CAST(`a` AS BIGINT) = 1)": Comparison("=", Cast(A, "long"), one),
        "(year(CAST(`a` AS DATE)) = 1)": Comparison("=", Year(Cast(A, "date")), one),
        "true": Constant(True),
    }
    for text, expected in cases.items():
        assert parse_predicate(text, "UTC") == expected, text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(`a` = 1",
        "`a` = 1)",
        "(`a` =",
        "(and = 5)",
        "`a` = 1; DROP TABLE t",
        "`a` = 1 -- and more",
        '(`a` = "b")',
        "(`a` ILIKE 'x')",
        "`a` LIKE ANY ('x%')",
        "(`a` = NULL)",
        "(NULL IS NULL)",
        "(`a`[0] = 1)",
        "(`a` IN (SELECT 1))",
        "CASE WHEN `a` = 1 THEN true ELSE false END",
        "((`a` + 1) = 2)",
        "(CAST(`a` AS VARCHAR(3)) = 'x')",
        "(CAST(`a` AS STRING COLLATE UTF8_LCASE) = 'x')",
    ],
)
def test_the_rest_is_unknown(text: str) -> None:
    assert parse_predicate(text, "UTC") == UNKNOWN


def test_an_unknown_piece_leaves_its_neighbours() -> None:
    one = literal(PrimitiveType("integer"), 1)
    text = "((soundex(`b`) = 'A') AND (`a` = 1)) AND (`c` = )"
    assert parse_predicate(text, "UTC") == And((UNKNOWN, Comparison("=", A, one), UNKNOWN))


def test_long_chains_and_deep_nesting_do_not_overflow() -> None:
    chain = "(" * 3000 + "`a` = 0)" + "".join(f" OR (`a` = {i}))" for i in range(1, 3000))
    parsed = parse_predicate(chain, "UTC")
    assert isinstance(parsed, Or)
    assert len(parsed.children) == 3000
    assert parse_predicate("(" * 3000 + "`a` = 0" + ")" * 3000, "UTC") != UNKNOWN
    assert parse_predicate("((`a` + " * 500 + "1" + "))" * 500 + " = 1", "UTC") == UNKNOWN
