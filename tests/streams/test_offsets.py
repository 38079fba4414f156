"""Offsets: their JSON is that of Delta Lake's connector, and what is not is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.streams.offsets import AFTER_DEFINITION_CHANGE, BASE, DEFINITION_CHANGE, Offset, parse_offset


def written(**changes: Any) -> str:
    fields: dict[str, Any] = {
        "sourceVersion": 1,
        "reservoirId": "a",
        "reservoirVersion": 5,
        "index": -1,
        "isStartingVersion": False,
    }
    return json.dumps({**fields, **changes})


def test_offsets_have_the_json_of_the_peer() -> None:
    assert Offset("a", 5, BASE, is_initial=False).to_json() == written().replace(" ", "")
    assert json.loads(Offset("a", 5, 7, is_initial=True).to_json()) == json.loads(
        written(index=7, isStartingVersion=True)
    )
    for index in (DEFINITION_CHANGE, AFTER_DEFINITION_CHANGE):
        assert json.loads(Offset("a", 5, index, is_initial=False).to_json())["sourceVersion"] == 3


@pytest.mark.parametrize("index", [BASE, 0, 12, DEFINITION_CHANGE, AFTER_DEFINITION_CHANGE])
@pytest.mark.parametrize("initial", [True, False])
def test_read_as_written(index: int, initial: bool) -> None:
    offset = Offset("a", 3, index, is_initial=initial)
    assert parse_offset(offset.to_json(), "a") == offset


def test_format_3_has_its_own_base() -> None:
    assert parse_offset(written(sourceVersion=3, index=-100), "a").index == BASE
    assert parse_offset(written(sourceVersion=3, index=-1), "a").index == -1


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("", "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        ("{", "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        ("[]", "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        ("17", "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        (written(index="x"), "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        (written(reservoirVersion=-1), "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        (written(reservoirVersion=True), "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        (written(isStartingVersion="no"), "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        (written(reservoirId=None), "DELTA_INVALID_SOURCE_OFFSET_FORMAT"),
        (written(sourceVersion=0), "DELTA_INVALID_SOURCE_VERSION"),
        (written(sourceVersion=2), "DELTA_INVALID_SOURCE_VERSION"),
        (written(sourceVersion=4), "DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION"),
        (written(reservoirId="b"), "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"),
    ],
)
def test_an_offset_of_another_table_or_form_is_refused(text: str, condition: str) -> None:
    with pytest.raises(HeadwaterError) as raised:
        parse_offset(text, "a")
    assert raised.value.condition == condition
