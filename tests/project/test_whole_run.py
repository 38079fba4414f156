"""A CI run's tests: what it forgives once, what it never does, and the last lines it ends with."""

from __future__ import annotations

import fcntl
import re
import threading
from typing import Any

import pytest

from support.paths import TESTS
from support.whole_run import MOST_SECOND_CHANCES, Outcomes, in_process, run

A, B = "tests/test_a.py::test_a", "tests/test_b.py::test_b[x y]"
FINE = Outcomes(0, passed=[A, B], others={"skipped": 1})
ALONE = Outcomes(0, passed=["tests/test_c.py::test_c"])


class Runs:
    """Stands for pytest's processes: what each comes to, and what each was asked."""

    def __init__(self, *outcomes: Outcomes) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[Any] = []

    def __call__(self, arguments):
        self.asked.append(list(arguments))
        return self.outcomes.pop(0)


def went(capsys, *outcomes):
    runs = Runs(*outcomes)
    code = run([["first"], ["second"]], runs)
    assert not runs.outcomes, "a step was left out"
    return code, capsys.readouterr().out.splitlines(), runs.asked


def failing(number, *passed):
    return Outcomes(
        1, passed=list(passed), failed={f"tests/test_f.py::test_{i}": "assert 1 == 2" for i in range(number)}
    )


def test_nothing_is_run_again_where_all_pass(capsys):
    code, lines, asked = went(capsys, FINE, ALONE)
    assert (code, asked) == (0, [["first"], ["second"]])
    assert re.fullmatch(r"=+ 3 passed, 1 skipped in [\d.]+s \(0:00:\d\d\) =+", lines[-1])


def test_what_runs_beside_delays_the_second_step(tmp_path):
    file, began = tmp_path / "lanes", []
    with file.open("w") as lane:
        fcntl.flock(lane, fcntl.LOCK_SH)

        def runs(arguments):
            began.append((arguments[0], lane.closed))
            if arguments == ["first"]:
                threading.Timer(0.2, lane.close).start()
            return Outcomes(0, [arguments[0]])

        assert run([["first"], ["second"]], runs, file) == 0
    assert began == [("first", False), ("second", True)]


@pytest.mark.parametrize("in_the_second", [False, True])
def test_a_few_that_failed_pass_by_themselves(capsys, in_the_second):
    first, second = failing(3, A), ALONE
    again = Outcomes(0, passed=list(first.failed))
    code, lines, asked = went(capsys, *((ALONE, first) if in_the_second else (first, second)), again)
    assert code == 0
    assert asked[2] == ["-n", "0", "-m", "", *first.failed]
    assert "failed" not in lines[-1]
    assert " 5 passed in " in lines[-1]
    (loud,) = [i for i, line in enumerate(lines) if "PASSED ONLY AT THE SECOND CHANCE" in line]
    assert all(f"!!! {name}" in lines[loud:] for name in first.failed)
    assert "!!!     at first: assert 1 == 2" in lines[loud:]


@pytest.mark.parametrize(
    ("again", "left"),
    [
        (Outcomes(1, passed=["tests/test_f.py::test_0"], failed={"tests/test_f.py::test_1": "again"}), 2),
        (Outcomes(0, passed=["tests/test_f.py::test_0"], others={"skipped": 1}), 1),  # a skipped test is no pass
        (Outcomes(3), 2),  # it broke off
    ],
)
def test_one_that_fails_again_fails_the_run(capsys, again, left):
    code, lines, _ = went(capsys, failing(2, A), ALONE, again)
    assert code == 1
    assert re.search(rf" {left} failed, \d passed in ", lines[-1])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (failing(MOST_SECOND_CHANCES + 1, A), ALONE),  # too many
        (failing(2, A), failing(2)),  # the same, if other tests
        (Outcomes(2, failed={"tests/test_f.py": "ImportError"}), ALONE),  # it cannot be imported
        (Outcomes(1, passed=[A], failed={"tests/test_f.py": "ImportError"}), ALONE),
        (Outcomes(-9), ALONE),  # killed
        (Outcomes(3, passed=[A]), ALONE),  # pytest's own error
        (FINE, Outcomes(5)),  # no test was found
        (FINE, Outcomes(0, others={"skipped": 7})),  # none was run
        (FINE, Outcomes(0)),
    ],
)
def test_what_is_never_forgiven(capsys, first, second):
    if second.failed:
        second = Outcomes(1, failed={f"{name}_b": reason for name, reason in second.failed.items()})
    code, lines, asked = went(capsys, first, second)
    assert (code, len(asked)) == (1, 2)
    assert re.search(r"\d (failed|error)", lines[-1])


PROJECT = '''
import os, pytest
from pathlib import Path

def first_time(name):
    file = Path(__file__).with_name(name)
    there = file.exists()
    file.touch()
    return not there

@pytest.fixture
def broken_at_first():
    assert not first_time("fixture")

@pytest.fixture
def broken_at_its_end():
    yield
    assert not first_time("end")

def test_fine(): pass
def test_of_a_fixture(broken_at_first): pass
def test_of_its_end(broken_at_its_end): pass
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.parametrize("text", ["a::b [c]"])
def test_crash(text):
    if first_time("crash"):
        os._exit(9)
@pytest.mark.alone
def test_alone():
    pass
'''  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {TESTS}\naddopts = -p support.whole_run -p no:cacheprovider\nmarkers =\n    alone: a"
    )
    (tmp_path / "test_p.py").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_fixtures_and_crashed_workers_are_failures_that_may_pass_the_second_time(project, capsys):
    """With pytest itself: a fixture that fails before and after its test, a worker that ends, names with brackets."""
    code = run([["-n", "2", "-m", "not alone"], ["-n", "0", "-m", "alone"]], in_process)
    lines = capsys.readouterr().out.splitlines()
    assert code == 0, lines
    assert " 5 passed, 1 skipped in " in lines[-1]
    assert [line[4:] for line in lines if line.startswith("!!! test")] == [
        "test_p.py::test_crash[a::b [c]]", "test_p.py::test_of_a_fixture", "test_p.py::test_of_its_end",
    ]  # fmt: skip


def test_a_step_without_a_test_fails(project, capsys):
    assert run([["-n", "0", "-k", "fine"], ["-n", "0", "-m", "alone", "-k", "nothing"]], in_process) == 1
    assert run([["-n", "0", "-k", "fine"], ["-n", "0", "-k", "skipped"]], in_process) == 1
    assert run([["-n", "0", "-k", "fine"], ["-n", "0", "--no-such-option"]], in_process) == 1
