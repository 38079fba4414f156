"""What the page on upgrades says of the record, and what breaks a promise."""

from __future__ import annotations

import importlib
import json

import pytest

from support.paths import ROOT

PASSES = "passes"


@pytest.fixture
def page(monkeypatch):
    """The module, of the folder beside the tests."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("upgrades.page")


@pytest.fixture
def earlier(page):
    return page.Revision(
        "abc", "2026-01-01", "little", frozenset({"hooked"}), {("upserts", "back"): ("A known condition.", "late")}
    )


@pytest.fixture
def shown(page, earlier, monkeypatch, tmp_path):
    """What the page shows of results, by the title of what was run, and its text."""

    def show(results):
        found = {"commit": "abc", "date": "d", "today": "def", "when": "w", "processors": 2, "gigabytes": 8}
        (tmp_path / "record.json").write_text(json.dumps({earlier.date: {**found, "results": results}}))
        monkeypatch.setattr(page, "RECORDED", tmp_path / "record.json")
        monkeypatch.setattr(page, "REVISIONS", (earlier,))
        text = page.tables()
        lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
        return {line[0]: line[1:] for line in lines}, text

    return show


def test_the_page_names_what_passed_what_was_not_run_and_what_the_version_lacks(shown):
    both = {"begun": PASSES, "up": PASSES, "back": PASSES, "again": PASSES, "down": PASSES}
    found, _ = shown({"copies": both, "hooked": {"down": "DELTA_X"}, "killed-merge": {"up": PASSES, "down": PASSES}})
    assert found["rows, classic checkpoints"] == [PASSES, PASSES, PASSES]
    assert found["after hooks, which hear of each version"] == ["not in it", "not in it", "not in it"]
    assert found["MERGE"] == [PASSES, PASSES]
    assert found["deletion vectors, OPTIMIZE, REORG"] == 3 * ["not run"]


def test_the_page_says_why_something_fails(shown):
    found, text = shown({"upserts": {"up": "rows are missing", "back": "a late row"}})
    assert found["upserts, late events of keys that were deleted"] == ["fails (1)", "fails (2)", "not run"]
    assert "1. `rows are missing`" in text
    assert "2. A known condition." in text


def test_a_failure_that_is_neither_known_nor_of_what_the_version_lacks_breaks_a_promise(page, earlier):
    assert page.is_failure(earlier, "upserts", "up", "rows are missing")
    assert page.is_failure(earlier, "hooked", "up", "x")
    assert not page.is_failure(earlier, "upserts", "back", "a late row")
    assert page.is_failure(earlier, "upserts", "back", "the process ended"), "a known failure hides no other"
    assert not page.is_failure(earlier, "hooked", "down", "DELTA_X")
    assert page.is_failure(earlier, "hooked", "today", "DELTA_X"), "what today's version does with its own job counts"
    assert not page.is_failure(earlier, "copies", "up", PASSES)
