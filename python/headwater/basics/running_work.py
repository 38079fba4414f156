"""What runs, in words: Spark's jobs as works with a name, and the line that shows them.

Owns what the line of a terminal and the cell of a notebook have in common: which jobs are shown, since when, and how
much is done. Promises: standard library only; what takes less than a second is not shown, nor are streams and
auto-compaction, for which nobody waits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headwater.basics.printable import printable

#: Seconds that work takes before it is shown.
PATIENCE = 1.0
#: Seconds without a job after which a statement's work is over: between its jobs it plans and commits.
GAP = 2.0
#: The name of what nobody has named.
UNNAMED = "query"
_LONGEST_NAME = 100
#: As much of a name as a narrow terminal shows, rather than a bar.
_SHORTEST_NAME = 24
_BAR = 20
#: The job group of auto-compaction, for which nobody waits.
_BACKGROUND = "headwater auto-compaction"


@dataclass(frozen=True)
class Job:
    """A running job of Spark.

    :param description: what the statement, or the program, called it; empty if neither did.
    :param group: its job group, which is the run of a stream's jobs; empty if it has none.
    :param done: its tasks that are done; ``all``: those that are known.
    :param rows_read: by its tasks so far; Spark counts those that run every few seconds.
    """

    description: str
    group: str
    done: int
    all: int
    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0


@dataclass(frozen=True)
class Work:
    """Something that runs: its name, its tasks that are done and all that are known, and seconds since it was seen; and
    the rows or, if Spark counts no rows, the bytes that its tasks have read, and the rows that they have written.
    """

    name: str
    done: int
    all: int
    seconds: float
    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0

    @property
    def amount(self) -> str:
        """How much is done: ``12 of 40 tasks, 1,200,000 rows read, 5 s``."""
        parts = [f"{self.done} of {self.all} tasks"]
        if self.rows_read:
            parts.append(f"{self.rows_read:,} rows read")
        elif self.bytes_read:
            parts.append(f"{self.bytes_read / 1e6:,.1f} MB read")
        if self.rows_written:
            parts.append(f"{self.rows_written:,} rows written")
        return ", ".join([*parts, f"{self.seconds:.0f} s"])

    def __str__(self) -> str:
        return f"{self.name}  {_bar(self.done, self.all)} {self.amount}"


class Watch:
    """What a session works on, by one look after the other."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._last = 0.0

    def look(self, jobs: Sequence[Job], streams: Collection[str], now: float) -> list[Work] | None:
        """The works to show of the jobs that run now; None if nothing runs, but a statement may be between two jobs.

        :param streams: the runs of the streams that are active.
        :param now: seconds of a clock that only goes forward.
        """
        if now - self._last > GAP:
            self._began.clear()
        found = [job for job in jobs if job.group != _BACKGROUND and job.group not in streams]
        if not found:
            return None if now - self._last <= GAP else []
        self._last = now
        named: dict[str, list[Job]] = {}  # the jobs of one step have one description
        for job in found:
            named.setdefault(one_line(job.description) or UNNAMED, []).append(job)
        # The steps of a statement are one work: it began with the first.
        began = {name: self._began.setdefault(_title(name), now) for name in named}
        works = [_work(name, of, now - began[name]) for name, of in named.items()]
        return [work for work in works if work.seconds >= PATIENCE]


def _work(name: str, jobs: Sequence[Job], seconds: float) -> Work:
    every = sum(job.all for job in jobs)
    return Work(
        name,
        min(sum(job.done for job in jobs), every),
        every,
        seconds,
        sum(job.rows_read for job in jobs),
        sum(job.bytes_read for job in jobs),
        sum(job.rows_written for job in jobs),
    )


def _title(name: str) -> str:
    """Of ``MERGE sales: 1 of 3, find matching rows`` the statement and the table."""
    return name.partition(": ")[0]


def one_line(text: str) -> str:
    """A name as it is shown: printable, and not too long."""
    return _cut(printable(" ".join(text.split())), _LONGEST_NAME)


def terminal_line(works: Sequence[Work], width: int) -> str:
    """One line of a terminal: of several works the first, and how many others there are. The name is shortened first,
    then the bar is left out, so that the amount stays.
    """
    if not works:
        return ""
    work, more = works[0], f"; {len(works) - 1} more" if len(works) > 1 else ""
    amount = f"{work.amount}{more}"
    bar = f"{_bar(work.done, work.all)} "
    room = width - len(amount) - 2
    if room - len(bar) < min(len(work.name), _SHORTEST_NAME):
        bar = ""
    return f"{_cut(work.name, max(room - len(bar), 1))}  {bar}{amount}"[:width]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _bar(done: int, every: int) -> str:
    full = _BAR * done // every if every else 0
    return "█" * full + "░" * (_BAR - full)
