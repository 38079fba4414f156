"""The curves of the page on performance: what is measured is what is asked; the pictures are those of the record."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from headwater.cli.pictures import svg

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(_ROOT))
    return importlib.import_module("bench.curves")


def test_a_small_run_is_recorded_and_drawn(
    curves: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(curves, "RECORDED", tmp_path / "curves.json")
    monkeypatch.setattr(curves, "PICTURES", tmp_path)
    curves.main(most_files=1000, most_commits=120, rounds=1, draw=False)
    found = json.loads((tmp_path / "curves.json").read_text())
    assert [row["files"] for row in found["plan"]] == [1000]
    assert [row["commits"] for row in found["commit"]] == [120]
    assert "1,000 files 1.0 times" in capsys.readouterr().out
    assert {file.name for file in tmp_path.glob("*.svg")} == {"plan-cold.svg", "plan-warm.svg", "commit-age.svg"}


def test_the_pictures_are_those_of_the_record(curves: ModuleType) -> None:
    record = json.loads((_ROOT / "bench" / "curves.json").read_text("utf-8"))
    for name, picture in curves.pictures(record).items():
        assert (_ROOT / "docs" / "images" / f"{name}.svg").read_text("utf-8") == svg(picture) + "\n"
        assert len(picture.bars) >= 2
