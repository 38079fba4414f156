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
def test_the_second_process_uses_what_the_first_has_kept(
    bench: ModuleType, capsys: pytest.CaptureFixture[str], v2: bool
) -> None:
    bench.main(50_000, v2=v2)
    *processes, cache = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in processes] == ["without:", "first:", "second:"]
    first, second = (float(line.split()[3]) for line in processes[1:])
    assert second < first
    # The files and which rows they are, counts of rows, and the bounds of two columns.
    assert cache.startswith(f"the cache: {4 if v2 else 5} entries, ")
