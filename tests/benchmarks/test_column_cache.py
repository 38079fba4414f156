"""The bench of the cache on disk measures what it says."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from support.paths import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}")
    return importlib.import_module("bench.column_cache")


@pytest.mark.parametrize("v2", [False, True])
def test_three_processes_are_measured_and_the_first_with_a_cache_keeps_all_that_it_used(
    bench: ModuleType, capsys: pytest.CaptureFixture[str], v2: bool
) -> None:
    bench.main(50_000, v2=v2)
    *processes, cache = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in processes] == ["without:", "first:", "second:"]
    # The files and which rows they are, counts of rows, and the bounds of two columns.
    assert cache.startswith(f"the cache: {4 if v2 else 5} entries, ")
