"""Expectations as table properties."""

from __future__ import annotations

import json

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.properties import EXPECT_PREFIX
from headwater.protocol.types import PrimitiveType, StructType
from headwater.schema import expectations
from headwater.schema.expectations import DROP, FAIL, KEEP, QUARANTINE, Expectation

_LONG = PrimitiveType("long")
OWN = Expectation("Own", "id > 0", QUARANTINE, ("c", "d", "t 2"))


def test_what_is_stored_is_read():
    stored = expectations.with_expectation({}, OWN)
    stored = expectations.with_expectation(stored, Expectation("a", "id < 9"))
    stored = expectations.with_expectation(stored, Expectation("b", "id <> 3", FAIL))
    assert [each.name for each in expectations.expectations(stored)] == ["a", "b", "Own"]
    assert expectations.find_expectation(stored, "OWN") == OWN
    assert [each.name for each in expectations.counted(stored)] == ["a", "Own"]
    assert [each.name for each in expectations.failing(stored)] == ["b"]
    assert OWN.clause == "EXPECT (id > 0) ON VIOLATION QUARANTINE INTO c.d.`t 2`"
    assert expectations.without_expectation(stored, "own").keys() == stored.keys() - {f"{EXPECT_PREFIX}own"}


def test_a_property_needs_only_a_condition():
    others, asked = expectations.asked_in({"x": "1", "Headwater.Expect.Own": json.dumps({"condition": "id > 0"})})
    assert (others, asked) == ({"x": "1"}, [Expectation("Own", "id > 0", KEEP)])


@pytest.mark.parametrize(
    "said",
    [
        {},
        [],
        {"condition": 7},
        {"condition": ""},
        {"condition": "a", "onViolation": "LATER"},
        {"condition": "a", "onViolation": "QUARANTINE"},
        {"condition": "a", "into": ["t"]},
        {"condition": "a", "onViolation": "QUARANTINE", "into": "t"},
        {"condition": "a", "name": "another"},
    ],
)
def test_a_property_that_cannot_be_read_refuses_writes_alone(said):
    stored = {f"{EXPECT_PREFIX}c": json.dumps(said)}
    with pytest.raises(HeadwaterError, match="headwater.expect.c"):
        expectations.expectations(stored)
    assert expectations.readable(stored) == expectations.row_conditions(stored) == []


def test_what_a_table_cannot_have():
    stored = expectations.with_expectation({}, OWN)
    for added, said in (
        (OWN._replace(name="OWN"), "already"),
        (OWN._replace(name="x", into=("other",)), "only one"),
    ):
        with pytest.raises(HeadwaterError, match=said):
            expectations.with_expectation(stored, added)
    with pytest.raises(HeadwaterError, match="takes quarantined rows"):
        expectations.with_expectation({"headwater.quarantine": "true"}, Expectation("x", "id > 0", DROP))
    for name in ("Quarantine_Reason", "_change_type"):
        with pytest.raises(HeadwaterError, match="reserved"):
            expectations.check_columns(OWN, StructType.of(id=_LONG, **{name: _LONG}))


def test_the_columns_of_a_quarantine_table_may_be_null():
    columns = expectations.quarantine_columns(StructType.of(id=_LONG, nothing=PrimitiveType("void")))
    assert columns.names == ["id", "quarantine_reason", "quarantine_time", "quarantine_source"]
    assert all(column.nullable for column in columns)
