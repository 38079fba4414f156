"""What is remembered of very many things does not grow without end."""

from __future__ import annotations

import pytest

from headwater.basics import warn_once
from headwater.basics.recent import Recent


def test_beyond_its_size_what_was_not_set_for_longest_goes() -> None:
    known: Recent[str, int] = Recent(3)
    for number, name in enumerate("abc"):
        known[name] = number
    known["a"] = 7
    assert list(known.items()) == [("b", 1), ("c", 2), ("a", 7)]
    known["d"] = 3
    assert list(known) == ["c", "a", "d"]
    assert known.setdefault("e", 4) == 4
    assert list(known) == ["a", "d", "e"]


def test_warnings_come_once_and_are_forgotten_at_last(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(warn_once, "_WARNED", Recent(2))
    for table in ("a", "a", "b", "c", "c", "a"):
        warn_once.warn_once(table, f"{table} is damaged")
    assert [record.getMessage()[0] for record in caplog.records] == ["a", "b", "c", "a"]
