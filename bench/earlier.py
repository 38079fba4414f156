"""An earlier commit of this repository, ready to be measured beside the checkout that the bench runs from.

It has a worktree and a JAR of its own, and the other packages of the Python that runs the bench. So it needs a clone
with its history and a JDK, and runs with today's Spark and libraries: only Headwater's own code differs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.sparks import ROOT


class NotBuilt(RuntimeError):
    """There is no such commit, or it cannot be built; the message says why."""


def commit_of(ref: str, repository: Path = ROOT) -> str:
    """The hash of the commit that a branch, tag or abbreviated hash names.

    :raises NotBuilt: it names none.
    """
    found = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if found.returncode:
        raise NotBuilt(
            f"{repository} has no commit {ref!r}. {found.stderr.strip()} "
            "Name a branch, tag or hash; a shallow clone needs `git fetch --unshallow` first."
        )
    return found.stdout.strip()


@contextmanager
def checkout(commit: str, place: Path, repository: Path = ROOT) -> Iterator[Path]:
    """A worktree of the commit in ``place``, which must not exist; it is gone at the end.

    :raises NotBuilt: git makes none.
    """
    _git(repository, "worktree", "prune")  # of runs that were killed
    made = _git(repository, "worktree", "add", "--detach", str(place), commit)
    if made.returncode:
        raise NotBuilt(f"git makes no worktree of {commit}: {made.stderr.strip()}")
    try:
        yield place
    finally:
        _git(repository, "worktree", "remove", "--force", str(place))


def build(source: Path) -> None:
    """Compile the JAR of a checkout.

    :raises NotBuilt: it does not compile.
    """
    script = source / "jvm" / "build.py"
    done = subprocess.run([sys.executable, str(script)], cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotBuilt(f"{script} fails:\n{(done.stdout + done.stderr)[-4000:]}")


def _git(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
