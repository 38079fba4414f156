"""A job that is said to be killed at each step was held there: otherwise what is continued proves nothing."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.paths import ROOT


@pytest.fixture
def jobs(monkeypatch):
    """The module, of the folder beside the tests."""
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("upgrades.jobs")
    monkeypatch.setattr(module, "_AFTERWARDS", 0.0)
    return module


def _held_in(*places):
    """A job whose handler is held in these copies, and which ends in the others."""

    def run(at):
        if Path(at.folder).name in places:
            Path(at.folder, "held").write_text(f"{at.folder}/file")
            threading.Event().wait()

    return run


def _killed(jobs, run, tmp_path):
    spark = SimpleNamespace(newSession=lambda: None)
    job = jobs.Job("job", "a job", lambda at: None, run, lambda at: None, steps=2)
    return jobs.kill(job, jobs.At(spark, "", str(tmp_path)))


def test_a_job_that_was_not_held_is_an_error(jobs, tmp_path):
    for number, places in enumerate([(), ("after-0",), ("after-1", "after-2")]):
        with pytest.raises(AssertionError, match="nothing was held that could be killed"):
            _killed(jobs, _held_in(*places), tmp_path / str(number))


def test_a_job_may_end_before_a_later_file(jobs, tmp_path):
    found = _killed(jobs, _held_in("after-0", "after-1"), tmp_path)
    assert found == {"after-0": "file", "after-1": "file", "after-2": "ended before"}
