"""The earlier versions, and how one is built and installed.

A version is a wheel of its commit, made from ``git archive``, in an environment of its own below ``target/upgrades``:
both are kept for the next run. The environment has that wheel; all else, Spark and libraries, it takes from the Python
that runs this. So only Headwater's own code differs.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.earlier import NotBuilt, commit_of
from bench.sparks import ROOT

#: Where wheels and environments are kept.
KEPT = ROOT / "target" / "upgrades"


@dataclass(frozen=True)
class Revision:
    """A commit at which Headwater was a usable state.

    :param date: of the commit.
    :param what: what it had and lacked, for the page.
    :param lacks: the names of chapters, jobs and pairs whose feature it does not have.
    :param known: by name and direction, why something is not promised, which the documents say too, and what the result
        then has: a failure without it is another one.
    """

    commit: str
    date: str
    what: str
    lacks: frozenset[str] = frozenset()
    known: Mapping[tuple[str, str], tuple[str, str]] = field(default_factory=dict)


_UNMARKED = (
    "A late event brings back a key that today's version has deleted, once this version has upserted with deletions "
    "into the same table: this version does not mark the batches in the companion, so today's takes its own earlier "
    "ones for failed. Later versions mark them.",
    "new: AssertionError: SELECT k, at, v FROM {t} ORDER BY k has ",
)

REVISIONS = (
    Revision(
        "060d71a8",
        "2026-11-24",
        "upserts, streams, row tracking, clustering; no clones, hooks, Iceberg metadata or transactions",
        frozenset(
            {
                "entry",
                "stream-by-time",
                "shallow-clone",
                "deep-clone",
                "converted",
                "iceberg",
                "hooked",
                "transactions",
                "killed-transaction",
                "transfers",
            }
        ),
        {("upserts", "again"): _UNMARKED, ("upserts", "down"): _UNMARKED},
    ),
    Revision(
        "c71c85e0",
        "2026-11-26",
        "also clones, CONVERT, entries in the metastore, hooks, Iceberg metadata, transactions over several tables",
    ),
    Revision(
        "9b605e64",
        "2026-11-28",
        "also the cache on disk, V2 checkpoints that share sidecars, options that are checked",
    ),
)


def installed(revision: Revision) -> Path:
    """The Python that has the revision, and no other Headwater.

    :raises NotBuilt: the clone does not have the commit, or its wheel cannot be made.
    """
    commit = commit_of(revision.commit)
    python = KEPT / commit / "bin" / "python"
    if not (python.parent / "headwater").exists():
        wheel = _wheel(commit)
        _run([sys.executable, "-m", "venv", "--without-pip", "--clear", str(KEPT / commit)])
        # A folder that a .pth file names is searched after the environment's own, and its .pth files are not read: so
        # a Headwater that is installed in place does not come with it.
        inside = _run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
        (Path(inside) / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        _run([sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)])
    return python


def _wheel(commit: str) -> Path:
    """The wheel of a commit, kept under ``target``."""
    kept = KEPT / "wheels" / commit
    if not (made := sorted(kept.glob("headwater-*.whl"))):
        with tempfile.TemporaryDirectory(prefix="headwater-earlier-") as source:
            archive = Path(source) / "archive.tar"
            _run(["git", "-C", str(ROOT), "archive", "--output", str(archive), commit])
            tree = Path(source) / "tree"
            tree.mkdir()
            _run(["tar", "-xf", str(archive), "-C", str(tree)])
            options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(kept)]
            _run([sys.executable, "-m", "pip", "wheel", *options, str(tree)])
        made = sorted(kept.glob("headwater-*.whl"))
    return made[0]


def commit_and_date(ref: str) -> tuple[str, str]:
    """The short hash and the day of a commit."""
    commit, date = _run(["git", "-C", str(ROOT), "log", "-1", "--format=%h %cs", ref]).split()
    return commit, date


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotBuilt(f"{' '.join(command)} fails:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def demo(python: Path) -> str | None:
    """Run the version's own demo; the end of what it printed if it fails."""
    with tempfile.TemporaryDirectory(prefix="headwater-demo-") as place:
        command = [str(python), "-m", "headwater", "demo"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=place, stdin=subprocess.DEVNULL, timeout=900
        )
    return None if done.returncode == 0 else (done.stdout + done.stderr)[-2000:]
