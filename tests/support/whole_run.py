"""The tests of a whole CI run: ``python -m support.whole_run``, whose closing line is that of ``.ci/run``.

First all tests but those marked ``alone``, on the workers; then those, one after another, with nothing beside them:
with ``--alone-after FILE``, not before that file can be locked, of which all that runs beside has a shared lock.
At most three tests that failed are then run once more in a fresh process. If they pass, the run passes, and its last
lines name them. Whatever else is wrong fails the run: more failures, a file that cannot be imported, a step that ends
before its tests do or that runs none. The last line counts all tests, in the form of pytest's own.

Only CI gives a second chance: ``pytest`` itself forgives nothing. As its plugin, this module writes what came of the
tests to the file that ``--outcomes`` names.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from support.paths import TESTS

#: How many failed tests are run once more.
MOST_SECOND_CHANCES = 3
#: The arguments of each step.
BESIDE_OTHERS = ("-m", "not soak and not alone", "--durations=50")
ALONE = ("-n", "0", "-m", "alone and not soak", "--durations=10")
_MARK = "mark.alone"
#: What pytest counts in its closing line, beside what failed, passed and could not be set up.
_OTHERS = ("skipped", "xfailed", "xpassed")
_FINISHED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


@dataclass
class Outcomes:
    """What came of the tests of one process: names that passed, names that failed with the reason, counts of others."""

    exit: int
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether every test ran to its end, and there was one."""
        return self.exit in _FINISHED and bool(self.passed or self.failed)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", metavar="FILE", help="write there, as JSON, which tests passed and which failed")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    if file := config.getoption("--outcomes"):
        found = outcomes(terminalreporter.stats, exitstatus)
        Path(file).write_text(json.dumps(asdict(found)), encoding="utf-8")


def outcomes(stats: dict[str, list[Any]], exit_status: int) -> Outcomes:
    """The outcomes in the reports that pytest's terminal has. What is wrong around a test is the test's failure."""
    failed: dict[str, str] = {}
    for report in (*stats.get("failed", ()), *stats.get("error", ())):
        failed.setdefault(report.nodeid, _reason(report))
    return Outcomes(
        int(exit_status),
        sorted({report.nodeid for report in stats.get("passed", ())} - set(failed)),
        failed,
        {category: len(stats[category]) for category in _OTHERS if stats.get(category)},
    )


def _reason(report: Any) -> str:
    """The last line of what a report says."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = str(crash.message if crash else report.longrepr or report.outcome).strip().splitlines()
    return (lines[0] if crash else lines[-1])[:300] if lines else report.outcome


def once_more(steps: Sequence[Outcomes]) -> list[str]:
    """The tests to run again after these steps; none where nothing failed, or what did is not forgiven."""
    failed = sorted({name for step in steps for name in step.failed})
    forgivable = all(step.finished for step in steps) and all("::" in name for name in failed)
    return failed if forgivable and len(failed) <= MOST_SECOND_CHANCES else []


def closing_lines(steps: Sequence[Outcomes], again: Outcomes | None, seconds: float) -> tuple[list[str], bool]:
    """The last lines of a run, and whether it passed. ``again`` is what came of :func:`once_more`."""
    failed = {name: reason for step in steps for name, reason in step.failed.items()}
    forgiven = sorted(set(failed) & set(again.passed)) if again and again.exit == 0 and not again.failed else []
    broken = [number for number, step in enumerate(steps, 1) if not step.finished]
    left = set(failed) - set(forgiven)
    lines = []
    if forgiven and not left:
        lines.append(_bar(f"PASSED ONLY AT THE SECOND CHANCE: {len(forgiven)} of at most {MOST_SECOND_CHANCES}", "!"))
        for name in forgiven:
            lines += [f"!!! {name}", f"!!!     at first: {failed[name]}"]
    for name in sorted(left):
        twice = again is not None and name in again.failed
        lines.append(f"FAILED{' twice' if twice else ''} {name}: {failed[name]}")
    for number in broken:
        step = steps[number - 1]
        said = (
            "ran no test" if step.exit in _FINISHED or step.exit == pytest.ExitCode.NO_TESTS_COLLECTED else "broke off"
        )
        lines.append(f"FAILED step {number} {said} (exit code {step.exit})")
    passed = {name for step in steps for name in step.passed} | set(forgiven)
    counts = {"failed": len(left), "passed": len(passed)}
    for category in _OTHERS:
        counts[category] = sum(step.others.get(category, 0) for step in steps)
    # A step that broke off is no failed test, but no run of it passes.
    counts["error"] = len(broken)
    counted = ", ".join(f"{count} {category}" for category, count in counts.items() if count)
    took = f"{seconds:.2f}s ({timedelta(seconds=int(seconds))})"
    lines.append(_bar(f"{counted or 'no tests ran'} in {took}"))
    return lines, not left and not broken and bool(passed)


def _bar(text: str, fill: str = "=") -> str:
    return f" {text} ".center(100, fill)


def run(
    steps: Sequence[Sequence[str]], pytest_run: Callable[[Sequence[str]], Outcomes], alone_after: Path | None = None
) -> int:
    """Run the steps, all but the first when nothing is beside them; then what is forgiven once; print the closing
    lines; the exit code."""
    started = time.monotonic()
    came = []
    for number, arguments in enumerate(steps):
        if number and alone_after is not None:
            with alone_after.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
        came.append(pytest_run(arguments))
    names = once_more(came)
    if names:
        print(f"\n== once more, by themselves: {', '.join(names)}", flush=True)
    again = pytest_run(["-n", "0", "-m", "", *names]) if names else None
    lines, passed = closing_lines(came, again, time.monotonic() - started)
    print("", *lines, sep="\n", flush=True)
    return 0 if passed else 1


def files_with(mark: str) -> list[str]:
    """The files of tests that name a mark; to collect only these takes less than to leave out most tests of all."""
    return sorted(str(file) for file in TESTS.rglob("test_*.py") if mark in file.read_text(encoding="utf-8"))


def in_process(arguments: Sequence[str]) -> Outcomes:
    """pytest with these arguments in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "outcomes.json"
        code = subprocess.run(
            [sys.executable, "-m", "pytest", f"--outcomes={file}", *arguments], check=False
        ).returncode
        if not file.exists():  # it was killed, or refused its arguments
            return Outcomes(code or int(pytest.ExitCode.INTERNAL_ERROR))
        found = Outcomes(**json.loads(file.read_text(encoding="utf-8")))
        # It may end badly after its summary.
        return found if found.exit == code else Outcomes(code or int(pytest.ExitCode.INTERNAL_ERROR))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--alone-after", type=Path, metavar="FILE")
    sys.exit(run([BESIDE_OTHERS, (*ALONE, *files_with(_MARK))], in_process, parser.parse_args().alone_after))
