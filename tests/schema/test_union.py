"""Columns of files taken together: in any order of files the same, but for names and places; and what is refused."""

from __future__ import annotations

import itertools

import pytest

from headwater.protocol.types import parse_schema, schema_string
from headwater.schema.union import check_readable, union
from support.requests import schema_json

STRUCT = {"type": "struct", "fields": [{"name": "X", "type": "short", "nullable": True, "metadata": {}}]}
WIDER = {
    "type": "struct",
    "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in [("y", "long"), ("x", "integer")]],
}


def columns(**fields):
    return parse_schema(schema_json(**fields))


def without_order(kind):
    """A type with the fields of structs by their names in lower case."""
    if hasattr(kind, "fields"):
        return {field.name.lower(): without_order(field.type) for field in kind}
    return kind.sql()


def test_columns_match_whatever_case_they_are_in_and_keep_first_names_and_places():
    merged = union(columns(Id="byte", s=STRUCT), columns(new="string", S=WIDER, iD="integer"))
    assert [f.name for f in merged] == ["Id", "s", "new"]
    assert [f.type.sql() for f in merged] == ["int", "struct<X:int,y:bigint>", "string"]


def test_no_order_of_files_makes_a_difference_of_types():
    files = [
        columns(a="byte", b="long"),
        columns(A="short"),
        columns(c=STRUCT, B="long"),
        columns(C=WIDER, a="integer"),
    ]
    found = []
    for some in itertools.permutations(files):
        merged = columns()
        for file in some:
            merged = union(merged, file)
        found.append(without_order(merged))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("integer", "long"),
        ("float", "double"),
        ("string", "binary"),
        ("date", "timestamp"),
        ("timestamp", "timestamp_ntz"),
        ("decimal(3,1)", "decimal(4,1)"),
        ("integer", STRUCT),
        ("integer", "decimal(10,0)"),
    ],
)
def test_other_types_do_not_go_together(one, other):
    for left, right in ((one, other), (other, one)):
        with pytest.raises(ValueError, match="column a is"):
            union(columns(a=left), columns(A=right))


def test_two_columns_of_one_name():
    twice = parse_schema(
        schema_string(columns(a="integer")).replace("]", ',{"name":"A","type":"long","nullable":true,"metadata":{}}]')
    )
    with pytest.raises(ValueError, match="several columns A"):
        union(columns(), twice)
    with pytest.raises(ValueError, match="several columns A"):
        check_readable(columns(b="long"), twice)


@pytest.mark.parametrize(
    ("table", "file", "reads"),
    [
        ("long", "integer", True),
        ("integer", "long", False),
        ("byte", "integer", False),
        ("string", "binary", True),
        ("binary", "string", False),
        ("double", "float", True),
        ("timestamp", "timestamp_ntz", False),
        (WIDER, STRUCT, True),
        (STRUCT, WIDER, False),
        ("integer", STRUCT, False),
    ],
)
def test_what_a_table_can_read(table, file, reads):
    schema, stored = columns(a=table, more="string"), columns(A=file, other="date")
    if reads:
        check_readable(schema, stored)
    else:
        with pytest.raises(ValueError, match="in the table"):
            check_readable(schema, stored)
