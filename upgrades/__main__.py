"""``python -m upgrades``: have earlier versions and today's read, write and continue what the other left.

Prints a table for each version of :mod:`upgrades.revisions`, and ``--record`` keeps the results in
``upgrades/upgrades.json``, which the page on upgrades shows. The exit code is 1 if anything fails that is promised.
It needs a clone with its history, a JDK, and the Python of the clone's tests. The first run builds the earlier
versions, some minutes each; then a version takes a quarter of an hour.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from bench.earlier import NotBuilt
from bench.sparks import OURS, ROOT, Driven, SparkFailed, settings
from rich.console import Console
from rich.table import Table

from upgrades import jobs, story, together
from upgrades.page import DIRECTIONS, PASSES, RECORDED, is_failure
from upgrades.revisions import REVISIONS, Revision, commit_and_date, demo, installed

#: By direction, what became of it.
Results = dict[str, str]
_LONGEST = 400
#: Sparks that live for minutes: to optimize their code for longer takes longer than it saves.
_QUICK = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"}


class Version(Driven):
    """A running version, with the catalog ``hive`` (Derby's metastore) or ``in-memory``.

    :param python: the interpreter that has it.
    """

    def __init__(self, name: str, python: str, place: Path, catalog: str) -> None:
        places = [str(Path(__file__).parent / "holding"), str(ROOT)]
        super().__init__(name, place, "upgrades.worker", places, python, _QUICK, own_group=True)
        more = {
            "spark.sql.catalogImplementation": catalog,
            "spark.headwater.python": python,
            "spark.headwater.cache.directory": str(place / "cache"),
            "spark.headwater.hook.heard.after": f"{Path(__file__).with_name('heard.py')}:heard",
        }
        answer = self.call("start", ours=True, settings={**settings(OURS, place, "2g"), **more})
        inside = ROOT / "python" if python == sys.executable else Path(python).parents[1]
        if not Path(answer["package"]).is_relative_to(inside):
            self.kill()
            raise SparkFailed(f"{name} runs the package in {answer['package']}, not the one under {inside}.")


@contextmanager
def running(name: str, python: str, place: Path, catalog: str = "in-memory") -> Iterator[Version]:
    """A version until the block ends; then it is killed with all that it has started."""
    version = Version(name, python, place, catalog)
    try:
        yield version
    finally:
        version.kill()


class Comparison:
    """One earlier version and today's, in a folder of their own."""

    def __init__(self, revision: Revision, python: str, place: Path, said: Callable[[str], None]) -> None:
        self._revision, self._place, self._said = revision, place, said
        self._pythons = {"old": python, "new": sys.executable}
        self.results: dict[str, Results] = {}

    def _version(self, which: str, catalog: str = "in-memory") -> Any:
        self._said(f"{which}, {catalog}")
        return running(which, self._pythons[which], self._place, catalog)

    def _try(self, name: str, direction: str, *calls: Callable[[], Any]) -> bool:
        """Make calls in order; note what became of them, and whether all passed. After a failure, none is made."""
        results = self.results.setdefault(name, {})
        if results.get(direction, PASSES) != PASSES:
            return False
        results[direction] = PASSES
        for call in calls:
            try:
                call()
            except SparkFailed as error:
                results[direction] = str(error)[:_LONGEST]
                self._said(f"{name}, {direction}: {error}")
                return False
        return True

    def tell(self, chapters: Sequence[story.Chapter]) -> None:
        """All chapters: begun by each version, and continued by both in turn."""
        lacks = self._revision.lacks

        def part(version: Version, chapter: story.Chapter, side: str, what: str, steps: int) -> Callable[[], Any]:
            name = f"{side}_{chapter.name.replace('-', '_')}"
            folder = str(self._place / name)
            return lambda: version.call("tell", chapter=chapter.name, part=what, steps=steps, name=name, folder=folder)

        def turn(version: Version, chapter: story.Chapter, side: str, steps: int) -> list[Callable[[], Any]]:
            parts = (("check", steps), ("step", steps), ("check", steps + 1))
            return [part(version, chapter, side, *each) for each in parts]

        theirs = [chapter for chapter in chapters if chapter.name not in lacks]
        with self._version("old", "hive") as old:
            for chapter in theirs:
                self._try(chapter.name, "begun", part(old, chapter, "old", "begin", 0))
        with self._version("new", "hive") as new:
            for chapter in theirs:
                if self._passed(chapter, "begun"):
                    self._try(chapter.name, "up", *turn(new, chapter, "old", 0))
            for chapter in chapters:
                self._try(chapter.name, "down", part(new, chapter, "new", "begin", 0))
        with self._version("old", "hive") as old:
            for chapter in theirs:
                if self._passed(chapter, "up"):
                    self._try(chapter.name, "back", *turn(old, chapter, "old", 1))
            for chapter in chapters:
                self._try(chapter.name, "down", *turn(old, chapter, "new", 0))
        with self._version("new", "hive") as new:
            for chapter in chapters:
                if self._passed(chapter, "back"):
                    self._try(chapter.name, "again", *turn(new, chapter, "old", 2))
                self._try(chapter.name, "down", *turn(new, chapter, "new", 1))

    def _passed(self, chapter: story.Chapter, direction: str) -> bool:
        return self.results[chapter.name].get(direction) == PASSES

    def kill(self, chosen: Sequence[jobs.Job]) -> None:
        """All jobs: killed under each version, continued under the other."""
        for killed, other, direction in (("old", "new", "up"), ("new", "old", "down")):
            mine = [job for job in chosen if killed == "new" or job.name not in self._revision.lacks]

            def folder(job: jobs.Job, killed: str = killed) -> str:
                return str(self._place / f"{killed}-{job.name}")

            unknown = [job for job in mine if job.name in self._revision.lacks]  # today's alone
            with self._version(killed) as version:
                for job in mine:
                    held_by = "today" if job in unknown else direction
                    self._try(job.name, held_by, partial(self._hold, version, job, folder(job)))
            if unknown:
                # What it does not know, today's version must finish first.
                with self._version("new") as version:
                    for job in unknown:
                        self._try(job.name, "today", partial(version.call, "resume", job=job.name, folder=folder(job)))
            with self._version(other) as version:
                for job in mine:
                    name = "look" if job in unknown else "resume"
                    self._try(job.name, direction, partial(version.call, name, job=job.name, folder=folder(job)))

    def _hold(self, version: Version, job: jobs.Job, folder: str) -> None:
        for place, path in version.call("hold", job=job.name, folder=folder)["held"].items():
            self._said(f"{job.name}, {place}: {path}")

    def write_together(self, chosen: Sequence[together.Pair]) -> None:
        """All pairs: both versions write at the same time, then both check."""
        mine = [pair for pair in chosen if pair.name not in self._revision.lacks]
        with self._version("old") as old, self._version("new") as new, ThreadPoolExecutor(2) as pool:
            for pair in mine:
                folder = str(self._place / f"pair-{pair.name}")

                def do(
                    version: Version, part: str, side: int = 0, pair: together.Pair = pair, folder: str = folder
                ) -> Any:
                    return version.call("pair", name=pair.name, part=part, side=side, folder=folder)

                def both(do: Callable[..., Any] = do) -> None:
                    writing = [pool.submit(do, version, "write", side) for side, version in enumerate((old, new))]
                    for each in writing:
                        each.result()

                self._try(
                    pair.name,
                    "both",
                    lambda: do(old, "prepare"),
                    both,
                    lambda: do(old, "check"),
                    lambda: do(new, "check"),
                )


def main(
    only: Annotated[list[str] | None, typer.Option(help="Only what has this name; may be repeated.")] = None,
    *,
    revision: Annotated[list[str] | None, typer.Option(help="Only the version of this date; may be repeated.")] = None,
    record: Annotated[bool, typer.Option(help="Keep the results for the page.")] = False,
    directory: Annotated[Path | None, typer.Option(help="Where to work and to leave the tables.")] = None,
) -> None:
    """Have earlier versions and today's read, write and continue what the other left."""
    console = Console(width=None if Console().is_terminal else 160)
    if unknown := set(only or ()) - {"demo", *story.BY_NAME, *jobs.BY_NAME, *together.BY_NAME}:
        raise typer.BadParameter(f"nothing is called {', '.join(sorted(unknown))}")
    failed = False
    for earlier in REVISIONS:
        if revision and earlier.date not in revision:
            continue
        try:
            python = installed(earlier)
        except NotBuilt as error:
            console.print(f"{earlier.date}: {error}", highlight=False, markup=False)
            raise typer.Exit(1) from None
        with tempfile.TemporaryDirectory(prefix="headwater-upgrades-", dir=directory) as place:
            results = _compared(earlier, python, Path(place), only, partial(_say, console))
        console.print(_table(earlier, results))
        failed |= any(
            is_failure(earlier, name, direction, text)
            for name, of_name in results.items()
            for direction, text in of_name.items()
        )
        if record:
            _keep(earlier, results)
    raise typer.Exit(1 if failed else 0)


def _compared(
    earlier: Revision, python: Path, place: Path, only: Sequence[str] | None, said: Callable[[str], None]
) -> dict[str, Results]:
    def chosen(all_of: Sequence[Any]) -> list[Any]:
        return [each for each in all_of if not only or each.name in only]

    compared = Comparison(earlier, str(python), place, said)
    if not only or "demo" in only:
        compared.results["demo"] = {"begun": demo(python) or PASSES}
    for parts, compare in (
        (chosen(story.CHAPTERS), compared.tell),
        (chosen(jobs.JOBS), compared.kill),
        (chosen(together.PAIRS), compared.write_together),
    ):
        if parts:
            compare(parts)
    return compared.results


def _keep(earlier: Revision, results: dict[str, Results]) -> None:
    """Put the results into the record; those of other names and versions stay."""
    recorded = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    of_earlier = recorded.setdefault(earlier.date, {"results": {}})
    of_earlier["commit"], of_earlier["date"] = commit_and_date(earlier.commit)
    of_earlier["today"], _ = commit_and_date("HEAD")
    of_earlier["when"] = datetime.now(timezone.utc).date().isoformat()
    of_earlier["processors"] = os.cpu_count()
    of_earlier["gigabytes"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    of_earlier["results"].update(results)
    content = {date: recorded[date] for date in sorted(recorded)}
    RECORDED.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _say(console: Console, text: str) -> None:
    console.print(f"{datetime.now():%H:%M:%S} {text}", highlight=False, markup=False)


def _table(earlier: Revision, results: dict[str, Results]) -> Table:
    table = Table("what", *DIRECTIONS, title=f"{earlier.date}, {earlier.commit[:8]}")
    for name, of_name in results.items():
        table.add_row(name, *(of_name.get(direction, "") for direction in DIRECTIONS))
    return table


if __name__ == "__main__":
    typer.run(main)
