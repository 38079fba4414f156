"""``python -m upgrades.recorded``: what earlier versions serialize, as small files for the tests.

Each version of :mod:`upgrades.revisions` begins a few chapters, and has a transaction over several tables held at some
steps. Kept are logs with their checkpoints, companions' logs, deletion vectors, checkpoints of streams, notes of hooks
and Iceberg's metadata, in ``tests/earlier/recorded``; data files are not. ``@PLACE@`` stands for the place.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.sparks import ROOT

from upgrades.__main__ import running
from upgrades.revisions import REVISIONS, Revision, installed

FOLDER = ROOT / "tests" / "earlier" / "recorded"
PLACE = "@PLACE@"
CHAPTERS = ("vectors", "v2-checkpoints", "upserts", "stream", "stream-schema-log", "iceberg", "hooked")
#: The copies of the transaction that are kept: after its first commit, and after its decision.
STEPS = (3, 6)
_KEPT = re.compile(r"/(_delta_log|checkpoint|_headwater|metadata)/|\.bin$")
#: Data of companions, checksums of Hadoop's local file system, what only Iceberg's readers read, temporary files.
_NOT = re.compile(r"/_headwater_upsert/[^/]*/[^/]*\.parquet$|/\.[^/]*$|\.avro$|/held$|/metadata/snap-")


def record(revision: Revision) -> None:
    """Replace what is recorded of a version."""
    target = FOLDER / revision.date
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="headwater-recorded-") as name:
        place = Path(name).resolve()
        with running("old", str(installed(revision)), place) as version:
            for chapter in CHAPTERS:
                if chapter in revision.lacks:
                    continue
                table = chapter.replace("-", "_")
                for part in ("begin", "check"):
                    request = {"chapter": chapter, "part": part, "steps": 0}
                    version.call("tell", **request, name=table, folder=str(place / table))
            if "killed-transaction" not in revision.lacks:
                version.call("hold", job="killed-transaction", folder=str(place / "transaction"))
        for file in sorted(_kept(place)):
            inside = file.relative_to(place)
            copy = target / Path(*(part for part in inside.parts if part != "warehouse-ours"))
            copy.parent.mkdir(parents=True, exist_ok=True)
            content = file.read_bytes()
            if file.suffix not in (".parquet", ".bin"):
                for path in (f"{place}/warehouse-ours", str(place)):
                    content = content.replace(path.encode(), PLACE.encode())
            copy.write_bytes(content)


def _kept(place: Path) -> Iterator[Path]:
    for file in place.rglob("*"):
        path = f"/{file.relative_to(place)}"
        held = re.match(r"/transaction/(template|after-(\d+))/", path)
        if held is not None and (held[2] is None or int(held[2]) not in STEPS):
            continue
        if file.is_file() and _KEPT.search(path) and not _NOT.search(path) and "/cache/" not in path:
            yield file


def main() -> None:
    """Record all versions, or those of the dates that are given."""
    for revision in REVISIONS:
        if not sys.argv[1:] or revision.date in sys.argv[1:]:
            record(revision)


if __name__ == "__main__":
    main()
