"""How the whole suite runs: how many workers, which tests stay together, what the closing lines say.

A run of folders gets two workers or more, each with its own shared Spark session. The tests of one file run on one
worker, in order; so do those of a folder whose Sparks, servers or engines are expensive to start (``_TOGETHER``). The
groups that take longest start first, so that the short ones fill the end. No test depends on its group.

The summary shows the time each folder took. No test is run twice: only CI does so, see :mod:`support.whole_run`.

``pytest --soak SECONDS`` is the long run: the tests marked ``random``, each for about that long, and ``soak``.
``pytest --shuffle SEED`` runs the files in another order, which must make no difference.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from support.covering import covering
from support.sparks import archive

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

#: Folders whose tests share processes that take long to start, the longest first.
_TOGETHER = ("interop", "bridge", "concurrency", "cluster", "stores", "faults")
#: Files outside them that take longest, the longest first: found with ``pytest --durations=50``.
_LONG = (
    "dml/test_property.py",
    "cli/test_demo.py",
    "project/test_readme.py",
    "project/test_build.py",
    "project/test_typed.py",
)
_TESTS = Path(__file__).resolve().parents[1]


#: How long each random test goes on, how many examples it draws, how many rounds of killing there are.
_BUDGETS = {"HEADWATER_TEST_SECONDS": 1.0, "HEADWATER_TEST_EXAMPLES": 1.0, "HEADWATER_TEST_KILLS": 0.5}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak",
        type=float,
        metavar="SECONDS",
        help="run random tests, each for about so many seconds, and those left out",
    )
    parser.addoption(
        "--shuffle", metavar="SEED", help="run files, and groups of files, in an order drawn from this seed"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    seconds = config.getoption("--soak")
    # Not what was drawn decides whether a run passes: it is the same each time, but for the long run. No draw is timed.
    hypothesis.settings.register_profile(
        "same", deadline=None, derandomize=True, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.register_profile("long", deadline=None, max_examples=1000, print_blob=True)
    hypothesis.settings.load_profile("same" if seconds is None else "long")
    if seconds is None:
        return
    # Test modules read these when they are imported, in the processes they start, too.
    for name, share in _BUDGETS.items():
        os.environ.setdefault(name, str(int(seconds * share)))
    # One for all workers: they must collect the same tests, of which some have what was drawn in their names.
    os.environ.setdefault("HEADWATER_TEST_SEED", str(random.randrange(10**9)))
    config.option.markexpr = "random or soak"
    config.option.timeout = 4 * seconds + 600


def pytest_report_header() -> str | None:
    seed = os.environ.get("HEADWATER_TEST_SEED")
    return None if seed is None else f"HEADWATER_TEST_SEED={seed} draws the same again"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process for chosen files or tests; for folders, a worker for two cores, and at least two."""
    if not any((config.invocation_params.dir / argument).is_dir() for argument in config.args):
        return 0
    os.environ.setdefault(archive.MAKE, "1")
    return max(2, min(4, (os.cpu_count() or 2) // 2))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Hands out whole groups, in the order of :func:`pytest_collection_modifyitems`.

    pytest-xdist's own ``loadgroup`` writes the group into a test's name, which pytest 9 no longer passes on.
    """
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(config.rootpath / nodeid.partition("::")[0])

    return Groups(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """In the long run, a test of Hypothesis is run again, with other examples, until its seconds are over."""
    seconds = pyfuncitem.config.getoption("--soak")
    if seconds is None or not getattr(pyfuncitem.obj, "is_hypothesis_test", False):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    end = time.monotonic() + seconds
    while True:
        pyfuncitem.obj(**given)
        if time.monotonic() > end:
            return True


@pytest.hookimpl(tryfirst=True)  # before tests are left out by their markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("random")
    matrices: dict[tuple[Path, str], list[Any]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("covering")
        if mark and not item.get_closest_marker("soak"):
            whole = "" if "file" in mark.args else item.originalname  # type: ignore[attr-defined]
            matrices[item.path, whole].append(item)
    for cases in matrices.values():
        kept = covering([_values(case) for case in cases])
        for number in set(range(len(cases))) - set(kept):
            cases[number].add_marker("soak")
    order = {name: number for number, name in enumerate((*_TOGETHER, *_LONG))}
    items.sort(key=lambda item: order.get(_group(item.path), len(order)))
    seed = config.getoption("--shuffle")
    if seed is not None:
        # Of a group the files, too; the tests of a file may build on each other's tables and stay in order.
        items.sort(key=lambda item: (_drawn(seed, _group(item.path)), _drawn(seed, str(item.path.relative_to(_TESTS)))))


def _values(case: Any) -> dict[int | str, str]:
    """The test, and the value of each of its parameters: what one decorator lists together stays together."""
    listed = case.callspec._idlist if hasattr(case, "callspec") else ()
    return {"test": case.nodeid.partition("[")[0], **dict(enumerate(listed))}


def _drawn(seed: str, name: str) -> bytes:
    """A place in the order that every worker draws alike."""
    return hashlib.sha256(f"{seed} {name}".encode()).digest()


def _group(path: Path) -> str:
    relative = path.relative_to(_TESTS)
    return relative.parts[0] if relative.parts[0] in _TOGETHER else relative.as_posix()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for group in terminalreporter.stats.values() for report in group if hasattr(report, "duration")]
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        seconds[_folder(report.nodeid)] += report.duration
    if sum(seconds.values()) > 60:
        terminalreporter.section("seconds by folder")
        for folder, taken in sorted(seconds.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{taken:8.1f}  {folder}")


def _folder(nodeid: str) -> str:
    parts = nodeid.partition("::")[0].split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
