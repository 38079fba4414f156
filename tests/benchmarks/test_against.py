"""``--against REF``: an earlier commit has a worktree of its own, and every case is measured beside it, in turns."""

from __future__ import annotations

import importlib
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module


def _git(repository: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    command = ["git", "-C", str(repository), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits, and a change that is not committed."""
    place = tmp_path / "clone"
    _git(tmp_path, "init", "--quiet", str(place))
    for text in ("old", "new"):
        (place / "code").write_text(text)
        _git(place, "add", "code")
        _git(place, "commit", "--quiet", "-m", text)
    (place / "code").write_text("edited")
    return place


def test_a_worktree_has_the_earlier_commit_and_goes(bench, repository: Path, tmp_path: Path):
    earlier = bench("bench.earlier")
    commit = earlier.commit_of("HEAD~1", repository)
    assert commit == _git(repository, "rev-parse", "HEAD~1")
    place = tmp_path / "earlier"
    with earlier.checkout(commit, place, repository) as source:
        assert (source / "code").read_text() == "old"
    assert not place.exists()
    assert len(_git(repository, "worktree", "list").splitlines()) == 1
    assert (repository / "code").read_text() == "edited"


def test_a_worktree_of_a_run_that_was_killed_is_forgotten(bench, repository: Path, tmp_path: Path):
    earlier = bench("bench.earlier")
    _git(repository, "worktree", "add", "--detach", str(tmp_path / "killed"), "HEAD")
    (tmp_path / "killed").rename(tmp_path / "elsewhere")
    with earlier.checkout("HEAD", tmp_path / "killed", repository):
        pass
    assert len(_git(repository, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("ref", ["nosuch", "--all", "HEAD:code"])
def test_what_is_no_commit_is_refused(bench, repository: Path, ref: str):
    earlier = bench("bench.earlier")
    with pytest.raises(earlier.NotBuilt, match="has no commit"):
        earlier.commit_of(ref, repository)


def test_a_commit_that_does_not_compile_is_refused_with_the_compiler_s_words(bench, tmp_path: Path):
    earlier = bench("bench.earlier")
    (tmp_path / "jvm").mkdir()
    (tmp_path / "jvm" / "build.py").write_text("raise SystemExit('no semicolon')")
    with pytest.raises(earlier.NotBuilt, match="no semicolon"):
        earlier.build(tmp_path)


def test_every_case_is_compared_with_the_earlier_commit_alone(bench):
    sparks = bench("bench.sparks")
    for case in bench("bench.__main__").cases():
        assert case.against_earlier().all_sides() == (sparks.OURS, sparks.EARLIER)
        assert (case.against_earlier().name, case.against_earlier().timed) == (case.name, case.timed)


def _measured(bench: Any, timed: Any) -> Any:
    main, sides = bench("bench.__main__"), bench("bench.cases")
    case = replace(next(iter(main.cases())), timed=timed, prepare=lambda bench, side: None, warm_up=1)
    every = {kind: object() for kind in ("ours", "earlier")}
    progress = main.Progress(disable=True)
    return main.measure(case.against_earlier(), sides.Bench(Path(), every, 1, 1), 2, progress)


def test_statements_alternate_and_so_does_who_begins(bench):
    ran = []

    def timed(bench: Any, side: str, number: int) -> float:
        ran.append(f"{side} {number}")
        return float(number)

    assert _measured(bench, timed) == {"ours": [1.0, 2.0], "earlier": [1.0, 2.0]}
    assert ran == ["ours 0", "earlier 0", "earlier 1", "ours 1", "ours 2", "earlier 2"]


@pytest.mark.parametrize("failing", ["ours", "earlier"])
def test_what_the_earlier_commit_cannot_do_is_no_failure_of_the_bench(bench, failing: str):
    main, sparks = bench("bench.__main__"), bench("bench.sparks")

    def timed(bench: Any, side: str, number: int) -> float:
        if side == failing:
            raise sparks.SparkFailed(f"{side}: no such statement\nat a line")
        return 1.0

    with pytest.raises(main.NotThere if failing == "earlier" else sparks.SparkFailed) as raised:
        _measured(bench, timed)
    if failing == "earlier":
        assert str(raised.value) == "earlier: no such statement"
