"""Pruning drops the files it should."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.protocol.types import DataType, DecimalType, PrimitiveType, StructField
from headwater.pruning import leaves_rows, prune, prune_all, select
from headwater.pruning.predicates import UNKNOWN, And, Or, Predicate
from support.predicate_text import parse_predicate
from support.pruning_fakes import FakeSnapshot, File, struct


def kept(snapshot: FakeSnapshot, predicate: str, time_zone: str = "UTC") -> list[int]:
    """The positions of the files that are kept."""
    return [i for i, keep in enumerate(prune(snapshot, parse_predicate(predicate, time_zone)).to_pylist()) if keep]


def column(kind: str | DataType, *files: Sequence[Any], **how: Any) -> FakeSnapshot:
    """Files of one column, ``a``, by its values."""
    return FakeSnapshot(struct(a=kind), [File([{"a": v} for v in values], **how) for values in files])


INTEGERS = column("integer", [1, 2, 3], [4, 5], [None, 6], [None, None], [])


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("(`a` = 2)", [0]),
        ("(2 = `a`)", [0]),
        ("(`a` = 9)", []),
        ("(`a` < 4)", [0]),
        ("(`a` <= 4)", [0, 1]),
        ("(`a` > 5)", [2]),
        ("(`a` >= 5)", [1, 2]),
        ("(`a` != 6)", [0, 1]),
        ("(NOT (`a` < 4))", [1, 2]),
        ("(NOT ((`a` < 4) OR (`a` >= 6)))", [1]),
        ("(NOT ((`a` > 3) AND (`a` < 6)))", [0, 2]),
        ("(`a` IN (1, 5))", [0, 1]),
        ("(`a` IN (1, 10, 11, 12, 13, 14, 15, 16, 17, 18))", [0]),
        ("(`a` IN (0, 10, 11, 12, 13, 14, 15, 16, 17, 18))", []),
        ("(NOT (`a` IN (6, 7)))", [0, 1]),
        ("(NOT (`a` IN (6, 10, 11, 12, 13, 14, 15, 16, 17, 18)))", [0, 1]),
        ("(NOT (`a` IN (1, CAST(NULL AS INT))))", []),
        ("(`a` IS NULL)", [2, 3]),
        ("(`a` IS NOT NULL)", [0, 1, 2]),
        ("(`a` <=> 6)", [2]),
        ("(NOT (`a` <=> 6))", [0, 1, 2, 3]),
        ("(`a` <=> CAST(NULL AS INT))", [2, 3]),
        ("(CAST(`a` AS BIGINT) = 5L)", [1]),
        ("(CAST(`a` AS BIGINT) > 5000000000L)", []),
        ("(CAST(`a` AS DOUBLE) > 5.5D)", [2]),
        ("(CAST(`a` AS DECIMAL(11,1)) = 4.5BD)", [1]),
        ("((`a` = 2) AND (rand() < 0.5D))", [0]),
        ("((`a` = 2) OR (rand() < 0.5D))", [0, 1, 2, 3, 4]),
        ("(`a` < `a`)", [0, 1]),
        ("false", []),
        ("(`a` = CAST(NULL AS INT))", []),
    ],
)
def test_integers(predicate: str, expected: list[int]) -> None:
    assert kept(INTEGERS, predicate) == expected


def test_a_narrowing_cast_keeps_everything() -> None:
    snapshot = column("long", [2**32 + 1], [1])
    assert kept(snapshot, "(CAST(`a` AS INT) = 1)") == [0, 1]
    assert kept(snapshot, "(CAST(`a` AS STRING) = '1')") == [0, 1]


def test_without_statistics_everything_is_kept() -> None:
    snapshot = column("integer", [1], missing=frozenset({"*"}))
    assert kept(snapshot, "(`a` = 5)") == kept(snapshot, "(`a` IS NULL)") == kept(snapshot, "(`a` IS NOT NULL)") == [0]


def test_unknown_columns_and_types_keep_everything() -> None:
    snapshot = column("binary", [b"a"])
    assert kept(snapshot, "(`a` = X'62')") == kept(snapshot, "(`b` = 1)") == kept(snapshot, "(`a`.`b` = 1)") == [0]
    assert kept(column("integer", [1]), "(`a` = '5')") == kept(column("string", ["1"]), "(`a` = 5)") == [0]
    assert kept(column("interval day to second", []), "(`a` = 1)") == [0]


def test_strings_compare_by_their_bytes() -> None:
    snapshot = column("string", ["a", "b"], ["Z"], ["\uffff"], ["😀"])
    assert kept(snapshot, "(`a` > 'b')") == [2, 3]
    assert kept(snapshot, "(`a` > '\uffff')") == [3]
    assert kept(snapshot, "(`a` < 'a')") == [1]


def test_string_prefixes() -> None:
    snapshot = column("string", ["apple", "apricot"], ["banana"], ["apz", "b"], [None])
    assert kept(snapshot, "startswith(`a`, 'ap')") == [0, 2]
    assert kept(snapshot, "`a` LIKE 'apr%t'") == [0]
    assert kept(snapshot, "(NOT `a` LIKE 'ap%')") == [1, 2]
    assert kept(snapshot, "(NOT `a` LIKE 'ap%t')") == [0, 1, 2]
    assert kept(snapshot, "`a` LIKE 'banana'") == [1]
    assert kept(snapshot, "`a` LIKE '%'") == [0, 1, 2]
    assert kept(snapshot, "(NOT `a` LIKE '%')") == []


@pytest.mark.parametrize("tie_breaker", ["\U0010ffff", "\x7f", ""])
def test_a_cut_off_maximum_is_not_the_maximum(tie_breaker: str) -> None:
    snapshot = column("string", ["customer-1", "customer-2"], cut=8, tie_breaker=tie_breaker)
    assert kept(snapshot, "(`a` = 'customer-2')") == [0]
    assert kept(snapshot, "(`a` > 'customer')") == [0]
    assert kept(snapshot, "(NOT (`a` <= 'customer'))") == [0]
    assert kept(snapshot, "(`a` = 'custom')") == []
    assert kept(snapshot, "(`a` > 'd')") == []


def test_point_lookups_among_long_strings() -> None:
    names = [f"customer-{i:06d}" for i in range(100)]
    snapshot = column("string", *([name] for name in names))
    assert kept(snapshot, "(`a` = 'customer-000042')") == [42]


def test_collated_strings_are_not_pruned() -> None:
    by_metadata = StructField("a", PrimitiveType("string"), metadata={"__COLLATIONS": {"a": "spark.UTF8_LCASE"}})
    snapshot = FakeSnapshot(struct(a=by_metadata), [File([{"a": "X"}]), File([{"a": None}])])
    assert kept(snapshot, "(`a` = 'x')") == kept(snapshot, "startswith(`a`, 'x')") == [0, 1]
    assert kept(snapshot, "(`a` IS NULL)") == [1]
    by_type = column("string collate UTF8_LCASE", ["X"])
    assert kept(by_type, "(`a` = 'x')") == [0]
    partition = FakeSnapshot(struct(a=by_metadata), [File(partition={"a": "X"})], ["a"])
    assert kept(partition, "(`a` = 'x')") == [0]


def test_padded_strings_are_not_pruned() -> None:
    padded = StructField("a", PrimitiveType("string"), metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"})
    assert kept(FakeSnapshot(struct(a=padded), [File([{"a": "x  "}])]), "(`a` = 'x')") == [0]
    limited = StructField("a", PrimitiveType("string"), metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"})
    assert kept(FakeSnapshot(struct(a=limited), [File([{"a": "x  "}])]), "(`a` = 'x')") == []


@pytest.mark.parametrize("kind", ["double", "float"])
def test_nan_is_above_everything_and_outside_of_statistics(kind: str) -> None:
    snapshot = column(kind, [1.0, float("nan")], [5.0])
    cast = "{}" if kind == "double" else "CAST({} AS DOUBLE)"
    a = cast.format("`a`")
    assert kept(snapshot, f"({a} > 9.0D)") == [0, 1]
    assert kept(snapshot, f"(NOT ({a} <= 9.0D))") == [0, 1]
    assert kept(snapshot, f"({a} = CAST('NaN' AS DOUBLE))") == [0, 1]
    assert kept(snapshot, f"({a} < 5.0D)") == [0]
    assert kept(snapshot, f"({a} = 5.0D)") == [1]
    assert kept(snapshot, f"({a} IN (5.0D, 6.0D))") == [1]


def test_zeros_are_equal() -> None:
    snapshot = column("double", [-0.0], [0.0])
    assert kept(snapshot, "(`a` = 0.0D)") == kept(snapshot, "(`a` = -0.0D)") == [0, 1]
    assert kept(snapshot, "(`a` < 0.0D)") == []
    partition = FakeSnapshot(struct(p="double"), [File(partition={"p": -0.0}), File(partition={"p": 1.0})], ["p"])
    many = ", ".join(f"{n}.0D" for n in range(20, 40))
    assert kept(partition, f"(`p` IN (0.0D, {many}))") == [0]


def test_decimals() -> None:
    snapshot = column(DecimalType(10, 2), [Decimal("1.50")], [Decimal("2.00")])
    assert kept(snapshot, "(`a` = 1.50BD)") == kept(snapshot, "(`a` < 2.00BD)") == [0]
    assert kept(snapshot, "(CAST(`a` AS DECIMAL(11,3)) > 1.999BD)") == [1]
    assert kept(snapshot, "(CAST(`a` AS DECIMAL(10,1)) > 5.0BD)") == [0, 1]


def test_dates_and_timestamps() -> None:
    days = [datetime.date(2020, 1, d) for d in (1, 5, 9)]
    dates = column("date", *([d] for d in days))
    assert kept(dates, "(`a` = DATE '2020-01-05')") == kept(dates, "(`a` <=> DATE '2020-01-05')") == [1]
    assert kept(dates, "(year(`a`) = 2021)") == []
    assert kept(dates, "(CAST(`a` AS TIMESTAMP) >= TIMESTAMP '2020-01-05 12:00:00')") == [1, 2]
    moments = [datetime.datetime(2020, 1, d, 12) for d in (1, 5, 9)]
    timestamps = column("timestamp", *([m] for m in moments))
    assert kept(timestamps, "(`a` > TIMESTAMP '2020-01-05 12:00:00')") == [2]
    assert kept(timestamps, "(`a` > TIMESTAMP '2020-01-05 13:00:00')", "Europe/Paris") == [2]
    assert kept(timestamps, "(CAST(`a` AS DATE) = DATE '2020-01-05')") == [1]
    assert kept(timestamps, "(`a` = TIMESTAMP_NTZ '2020-01-05 12:00:00')") == [0, 1, 2]
    local = column("timestamp_ntz", *([m] for m in moments))
    assert kept(local, "(CAST(`a` AS DATE) > DATE '2020-01-05')") == [2]


def test_loose_null_counts_count_only_at_their_ends() -> None:
    files = [
        File([{"a": 1}], deleted=[{"a": None}], tight=False),
        File([{"a": None}], deleted=[{"a": None}], tight=False),
        File([{"a": 1}], deleted=[{"a": 2}], tight=False),
    ]
    snapshot = FakeSnapshot(struct(a="integer"), files)
    assert kept(snapshot, "(`a` IS NULL)") == [0, 1]
    assert kept(snapshot, "(`a` IS NOT NULL)") == [0, 2]


def test_nested_columns_are_found_by_physical_names() -> None:
    inner = StructField("x", PrimitiveType("integer"), metadata={"delta.columnMapping.physicalName": "col-2"})
    outer = StructField("s", struct(x=inner), metadata={"delta.columnMapping.physicalName": "col-1"})
    rows: list[dict[str, Any]] = [{"col-1": {"col-2": 1}}, {"col-1": {"col-2": 5}}, {"col-1": None}]
    snapshot = FakeSnapshot(struct(s=outer), [File([row]) for row in rows])
    assert kept(snapshot, "(`s`.`x` = 5)") == kept(snapshot, "(`S`.`X` = 5)") == [1]
    assert kept(snapshot, "(`s`.`x` IS NULL)") == [2]
    assert kept(snapshot, "(`s` IS NULL)") == [0, 1, 2]


PARTITIONED = FakeSnapshot(
    struct(p="integer", q="string", b="boolean", t="timestamp", a="integer"),
    [
        File([{"a": 1}], {"p": 1, "q": "long enough to be cut", "b": True, "t": datetime.datetime(2020, 1, 1)}),
        File([{"a": 2}], {"p": 2, "q": "x", "b": False, "t": datetime.datetime(2020, 1, 9)}),
        File([{"a": 3}]),
    ],
    ["p", "q", "b", "t"],
)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("(`p` = 1)", [0]),
        ("(NOT (`p` = 1))", [1]),
        ("(`p` IS NULL)", [2]),
        ("(`p` <=> 2)", [1]),
        ("(NOT (`p` <=> 2))", [0, 2]),
        ("(`q` > 'long enough to be cut')", [1]),
        ("(NOT (`q` = 'long enough to be cut'))", [1]),
        ("(NOT (`q` IN ('x', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i')))", [0]),
        ("(NOT startswith(`q`, 'long enough'))", [1]),
        ("`b`", [0]),
        ("(NOT `b`)", [1]),
        ("(`b` <=> true)", [0]),
        ("(`t` > TIMESTAMP '2020-01-05 00:00:00')", [1]),
        ("(`t` = TIMESTAMP '2020-01-01 12:00:00')", [0]),  # its text may have been in another zone
        ("((`p` = 1) OR (`a` = 3))", [0, 2]),
    ],
)
def test_partition_columns(predicate: str, expected: list[int]) -> None:
    assert kept(PARTITIONED, predicate) == expected


def test_statistics_are_asked_for_once_and_only_where_used() -> None:
    snapshot = FakeSnapshot(struct(a="integer", b="integer", p="integer"), [File([{"a": 1, "b": 2}], {"p": 1})], ["p"])
    prune(snapshot, parse_predicate("((`a` = 1) AND ((`a` < 5) OR (`p` = 2)))"))
    assert snapshot.asked == [[("a",)]]
    prune(snapshot, parse_predicate("(`p` = 2)"))
    assert len(snapshot.asked) == 1


def test_several_predicates_select_files() -> None:
    predicates = [parse_predicate(text) for text in ("(`a` > 3)", "not readable (", "(`a` < 6)")]
    assert prune_all(INTEGERS, predicates).to_pylist() == [False, True, False, False, False]
    assert select(INTEGERS, predicates)["path"].to_pylist() == ["f1"]
    assert select(INTEGERS, []).num_rows == 5
    empty = column("integer")
    assert prune(empty, parse_predicate("(`a` = 1)")).equals(pa.array([], pa.bool_()))


def test_statistics_that_cannot_be_read_keep_everything() -> None:
    class Broken(FakeSnapshot):
        def statistics(self, leaves: Sequence[tuple[str, ...]]) -> pa.Table:
            raise pa.ArrowInvalid("bad JSON")

    assert kept(Broken(struct(a="integer"), [File([{"a": 1}])]), "(`a` = 5)") == [0]
    deep = "(NOT " * 5000 + "(`a` = 5)" + ")" * 5000
    assert kept(INTEGERS, deep) == [0, 1, 2, 3, 4]


def test_deep_conditions_cost_no_more_at_each_level() -> None:
    tree: Predicate = UNKNOWN
    for level in range(40):
        tree = And((tree, UNKNOWN)) if level % 2 else Or((tree, UNKNOWN))
    snapshot = FakeSnapshot(struct(a=PrimitiveType("integer")), [File([{"a": 1}])])
    assert leaves_rows(snapshot, [tree]).to_pylist() == [True]
