"""Rules for the sources that no linter knows."""

from __future__ import annotations

import re

from support.paths import TESTS

PACKAGE = TESTS.parent / "python/headwater"


def test_tests_find_their_modules_without_changing_the_path() -> None:
    """What tests share is imported as ``support.<name>``; see :mod:`support`."""
    change = re.compile(r"sys\.path(\[|\.(insert|append|extend)| *\+?=)")
    found = [str(file) for file in TESTS.rglob("*.py") if change.search(file.read_text(encoding="utf-8"))]
    assert not found


def test_one_module_reads_the_clock() -> None:
    """What dates a log can be set by a test, all at once."""
    reads = re.compile(r"\btime\.time(_ns)?\(|\bdatetime\.now\(")
    found = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if reads.search(file.read_text("utf-8"))}
    assert found == {"clock.py"}
