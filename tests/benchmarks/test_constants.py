"""The constants that the bench measures are there, and the cases that comments name are, too."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT

NAMED = re.compile(r"[Bb]ench\s+cases?\s((?:`+[a-z0-9-]+`+(?:,\s|\sand\s|\s)?)+)")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module


def test_cases_that_comments_name_exist(bench):
    cases = {case.name for case in bench("bench.__main__").cases()} | {c.name for c in bench("bench.constants").cases()}
    named: dict[str, Any] = {}
    for source in (*(ROOT / "python" / "headwater").rglob("*.py"), *(ROOT / "jvm" / "src").rglob("*.scala")):
        text = re.sub(r"\s*\n\s*(?:#:?|//|\*)?\s*", " ", source.read_text(encoding="utf-8"))
        for names in NAMED.findall(text):
            named |= dict.fromkeys(re.findall(r"[a-z0-9-]+", names.replace(" and ", " ")), source.name)
    assert {"in-list", "kept-slices", "update-small", "upserts-other"} <= named.keys()
    assert {name: file for name, file in named.items() if name not in cases} == {}


def test_a_case_measures_a_constant_and_leaves_it_as_it_was(bench, tmp_path: Path):
    constants = bench("bench.constants")
    for case in constants.cases():
        assert case.value > 1
    (case,) = [c for c in constants.cases() if c.name == "footers-of-source"]
    before = case.value
    times = constants.measure(case, tmp_path, 1)
    assert {way: len(taken) for way, taken in times.items()} == {"read": 3}
    assert case.value == before
