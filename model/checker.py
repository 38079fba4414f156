"""Spin: makes a C program of a model, runs it, and reads what it found.

Owns the commands ``spin`` and ``gcc``, and their options. Promises: a search is exhaustive within the bounds, or it is
an error: states are stored, not hashed. The search for a mutation is breadth-first, so that its trace is the shortest.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from model.parts import Part

#: Megabytes that the states of a search may take.
_MOST_MEMORY = 6000
#: Steps of the longest trace that a search follows; one that reaches it is an error.
_MOST_STEPS = 100_000
_TOOLS = ("spin", "gcc")
_OPTIONS = ("-O2", "-w", "-DSAFETY", f"-DMEMLIM={_MOST_MEMORY}")


class CheckerMissing(Exception):
    """A command that the model needs is not on the PATH."""


class SearchFailed(Exception):
    """A search that did not end; what Spin printed."""


@dataclass(frozen=True)
class Result:
    """What a search found.

    :param seconds: of a processor, for the search alone.
    :param broken: the invariant that is broken; None if none is.
    :param trace: the steps to it, each the function of the code and what it does.
    """

    states: int
    transitions: int
    depth: int
    seconds: float
    broken: str | None = None
    trace: tuple[tuple[str, str], ...] = ()


def check(part: Part, bounds: Mapping[str, int], mutation: str | None = None) -> Result:
    """Search all states of a part.

    :param mutation: the constant of a fault that it is to have.
    :raises CheckerMissing: Spin or a compiler is not installed.
    :raises SearchFailed: the search needs more memory than it may have, or the model is damaged.
    """
    for tool in _TOOLS:
        if shutil.which(tool) is None:
            raise CheckerMissing(f"{tool} is not on the PATH. On Debian: apt install spin gcc libc6-dev")
    defined = [f"-D{name}={value}" for name, value in bounds.items()]
    if mutation is not None:
        defined.append(f"-D{mutation}")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(part.file, folder)
        _run(["spin", "-a", *defined, part.file.name], folder)
        search = "-DCOLLAPSE" if mutation is None else "-DBFS"
        _run(["gcc", *_OPTIONS, search, "-o", "pan", "pan.c"], folder)
        began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        printed = _run(["./pan", f"-m{_MOST_STEPS}", "-w24"], folder)
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began
        if "Search not completed" in printed and "errors: 0" in printed or "max search depth too small" in printed:
            raise SearchFailed(printed)
        trail = Path(folder, f"{part.file.name}.trail")
        broken: str | None = None
        trace: tuple[tuple[str, str], ...] = ()
        if trail.exists():
            broken, trace = _replayed(part, _run(["spin", "-t", *defined, part.file.name], folder))
        return Result(
            _number(r"(\S+) states, stored", printed),
            _number(r"(\S+) transitions", printed),
            _number(r"depth reached (\d+)", printed),
            seconds,
            broken,
            trace,
        )


def _run(command: list[str], folder: str) -> str:
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    printed = ran.stdout + ran.stderr
    if ran.returncode != 0 and "pan" not in command[0] and "-t" not in command:
        raise SearchFailed(f"{' '.join(command)}\n{printed}")
    return printed


def _number(pattern: str, printed: str) -> int:
    found = re.search(pattern, printed)
    if found is None:
        raise SearchFailed(printed)
    return int(float(found[1]))  # large numbers are rounded, as 1.2e+08


def _replayed(part: Part, printed: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The invariant that a trace breaks, and its steps."""
    failed = re.search(rf"spin: {re.escape(part.file.name)}:(\d+), Error: assertion violated", printed)
    if failed is None:
        raise SearchFailed(printed)
    steps = []
    for line in printed.splitlines():
        function, bar, words = line.strip().partition(" | ")
        if bar:
            steps.append((function, _in_words(part, words)))
    return part.invariant_at(int(failed[1])), tuple(steps)


def _in_words(part: Part, words: str) -> str:
    """With the names of statements in place of their numbers."""
    if part.name != "rows":
        return words
    names = {value: name for name, value in list(part.constants().items())[::-1] if name.isupper()}
    return re.sub(r"statement (\d+), row (\d+)", lambda m: _statement(names[int(m[1])], m[2]), words)


def _statement(name: str, row: str) -> str:
    words = name.replace("_", " ")
    return words if name.endswith(("OPTIMIZE", "INSERT")) else f"{words} of row {row}"
