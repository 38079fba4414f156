"""Avro's containers: what is written is read, by the library that Iceberg's readers use too, and damage is seen."""

from __future__ import annotations

import pytest

from headwater.iceberg import avro

SCHEMA = {"type": "record", "name": "r", "fields": [
    {"name": "a", "type": "long"},
    {"name": "b", "type": ["null", "string"]},
    {"name": "c", "type": {"type": "array", "items": "bytes"}},
    {"name": "d", "type": "boolean"},
]}  # fmt: skip


def record(number, text, items, flag):
    pieces = [avro.long(number), b"\x00" if text is None else b"\x02" + avro.text(text)]
    if items:
        pieces += [avro.long(len(items)), *map(avro.data, items)]
    return b"".join((*pieces, b"\x00", bytes([flag])))


RECORDS = [
    (0, None, [], False),
    (-1, "ü", [b"x", b""], True),
    (1 << 62, "", [b"\xff" * 2000], True),
    (-(1 << 63), None, [], False),
]


def test_records_come_back():
    content = avro.container(SCHEMA, {"key": "value"}, (record(*each) for each in RECORDS))
    assert [tuple(each.values()) for each in avro.read_records(content)] == RECORDS
    assert avro.open_container(content).metadata["key"] == "value"


@pytest.mark.parametrize("cut", [0, 3, 20, 200, -1, -17, -30])
def test_what_is_cut_off_is_damaged(cut):
    content = avro.container(SCHEMA, {}, (record(*each) for each in RECORDS))
    with pytest.raises(ValueError, match="Avro|truncated|end"):
        avro.read_records(content[:cut])
