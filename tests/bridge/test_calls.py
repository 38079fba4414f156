"""What a call leaves behind in the handler's process."""

from __future__ import annotations

import gc
import json
import weakref
from types import SimpleNamespace
from typing import Any

from headwater import handler
from headwater.bridge.calls import EntryPoint, Handler
from headwater.bridge.messages.read import TableExistsRequest


class _Footer:
    """Like the footer of a Parquet file, which refers to its schema, and the schema to it."""

    def __init__(self) -> None:
        self.schema = SimpleNamespace(footer=self)


def test_circles_of_objects_are_gone_after_some_calls() -> None:
    left: list[weakref.ref[_Footer]] = []

    def handle(request: Any, statement: Any) -> bool:
        left.append(weakref.ref(_Footer()))
        return True

    entry = EntryPoint(lambda: {"table_exists": Handler(TableExistsRequest, handle)})
    before = gc.get_threshold()
    gc.set_threshold(1_000_000)  # Python itself does not look
    try:
        for _ in range(150):
            answer = entry.call("table_exists", json.dumps({"session": {}, "request": {"table": "/t"}}), None)
            assert json.loads(answer)["result"] is True
        assert [reference() is None for reference in left[:99]] == [True] * 99
    finally:
        gc.set_threshold(*before)


def test_what_a_call_leaves_is_never_kept_for_good() -> None:
    """The handlers are asked for at each call; only what was there at first stays out of the collector's sight."""
    before = gc.get_threshold()
    try:
        handler._handlers()
        frozen = gc.get_freeze_count()
        left = [[number] for number in range(1000)]
        handler._handlers()
        assert gc.get_freeze_count() <= frozen
        assert len(left) == 1000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
