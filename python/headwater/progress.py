"""Progress of running work by name: what runs, on which table, how much is done.

Owns the line that ``headwater.show_progress`` shows while Spark works: in a notebook below the cell, in a terminal on
standard error. The names are those that statements give their jobs, the same as in Spark's UI: ``OPTIMIZE sales: 1 of
2, compact 120 files of 8000000 bytes into 4``. Over Spark Connect a client is not told them; there a statement that
was given to ``spark.sql``, as all of ``DeltaTable`` are, is named by its first words.

Promises: showing never makes a statement fail, wait or run again; text values of statements are not shown; what takes
less than a second is not shown.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from types import TracebackType
from typing import Any, Protocol

from headwater.basics.printable import printable

#: Seconds between two looks at the jobs of a classic session.
_INTERVAL = 0.5
#: Seconds that work takes before it is shown.
_PATIENCE = 1.0
#: Seconds without a job after which a statement's work is over: between its jobs it plans and commits.
_GAP = 2.0
_LONGEST_NAME = 100
_BAR = 20
#: A text of SQL: ``'…'`` or ``"…"``; possessive in effect, since no alternative begins like another.
_TEXTS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
#: The job group of auto-compaction, for which nobody waits.
_BACKGROUND = "headwater auto-compaction"


@dataclass(frozen=True)
class Work:
    """Something that runs: its name, its tasks that are done and all that are known, and seconds since it was seen."""

    name: str
    done: int
    all: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.name}  {_bar(self.done, self.all)} {self.done} of {self.all} tasks, {self.seconds:.0f} s"


#: Shows what runs now; an empty sequence once nothing does.
Show = Callable[[Sequence[Work]], None]


class Progress(Protocol):
    """What :func:`headwater.show_progress` returns; as a context manager it stops at the end of the block."""

    def stop(self) -> None:
        """Show nothing more."""

    def __enter__(self) -> Progress: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def follow(spark: Any, show: Show | None = None) -> Progress:
    """See :func:`headwater.show_progress`."""
    shown = show or _display()
    is_remote = type(spark).__module__.startswith("pyspark.sql.connect")
    return _Connected(spark, shown) if is_remote else _Jobs(spark, shown)


class _Progress:
    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


# --- a classic session ------------------------------------------------------------------------------------------------


class _Jobs(_Progress):
    """Looks at the jobs of a Spark in this process, from a thread of its own."""

    def __init__(self, spark: Any, show: Show) -> None:
        self._spark = spark
        self._show = show
        self._over = threading.Event()
        self._began: dict[str, float] = {}
        self._shows = False
        self._thread = threading.Thread(target=self._run, name="headwater progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        last = 0.0
        try:
            while not self._over.wait(_INTERVAL):
                now = time.monotonic()
                works = self._works(now)
                if works:
                    last = now
                    self._tell([work for work in works if work.seconds >= _PATIENCE])
                elif now - last > _GAP:
                    self._began.clear()
                    self._tell(())
        except Exception:  # Spark was stopped, or the notebook is gone: there is nothing to show, and nobody to tell
            pass
        finally:
            self._tell(())

    def _works(self, now: float) -> list[Work]:
        """The jobs that run, those of one description together."""
        context = self._spark._jsc.sc()
        store = context.statusStore()
        counted: dict[str, list[int]] = {}
        numbers = list(context.statusTracker().getActiveJobIds())
        streams = {str(query.runId) for query in self._spark.streams.active} if numbers else set()
        for number in numbers:
            job = _job(store, number)
            if job is None or not job.description().isDefined():
                continue
            group = job.jobGroup().get() if job.jobGroup().isDefined() else ""
            if group == _BACKGROUND or group in streams:
                continue
            of = counted.setdefault(_one_line(str(job.description().get())), [0, 0])
            of[0] += job.numCompletedTasks() + job.numSkippedTasks()
            of[1] += job.numTasks()
        # The steps of a statement are one work: it began with the first.
        began = {name: self._began.setdefault(_title(name), now) for name in counted}
        return [Work(name, min(done, every), every, now - began[name]) for name, (done, every) in counted.items()]

    def _tell(self, works: Sequence[Work]) -> None:
        if works or self._shows:
            self._shows = bool(works)
            self._show(works)


def _job(store: Any, number: int) -> Any:
    """What Spark knows of a job; None if it is not in its store, as in the moment of its start."""
    from py4j.protocol import Py4JJavaError

    try:
        return store.job(number)
    except Py4JJavaError:
        return None


def _title(name: str) -> str:
    """Of ``MERGE sales: 1 of 3, find matching rows`` the statement and the table."""
    return name.partition(": ")[0]


# --- Spark Connect ----------------------------------------------------------------------------------------------------


class _Connected(_Progress):
    """Is called by the client of Spark Connect, on the thread that waits for the answer."""

    def __init__(self, spark: Any, show: Show) -> None:
        self._spark = spark
        self._show = show
        self._names = threading.local()
        self._lock = threading.Lock()
        self._began: dict[str | None, float] = {}
        self._works: dict[str | None, Work] = {}
        sql = spark.sql

        @functools.wraps(sql)
        def named(sqlQuery: str, *args: Any, **kwargs: Any) -> Any:  # the parameter has Spark's name, as users give it
            self._names.now = sqlQuery
            try:
                return sql(sqlQuery, *args, **kwargs)
            finally:
                self._names.now = None

        spark.sql = named
        spark.registerProgressHandler(self._heard)

    def stop(self) -> None:
        self._spark.__dict__.pop("sql", None)
        if self._heard in self._spark.client._progress_handlers:
            self._spark.removeProgressHandler(self._heard)
        self._show(())

    def _heard(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        now = time.monotonic()
        name = _named(getattr(self._names, "now", None))
        counts = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        with self._lock:
            began = self._began.setdefault(operation_id, now)
            if done:
                del self._began[operation_id]
                if self._works.pop(operation_id, None) is None:
                    return
            elif now - began >= _PATIENCE:
                self._works[operation_id] = Work(
                    name, sum(each for each, _ in counts), sum(every for _, every in counts), now - began
                )
            else:
                return
            works = list(self._works.values())
        with contextlib.suppress(Exception):  # a display that is gone must not end the statement
            self._show(works)


def _named(text: str | None) -> str:
    """A statement's first words, without the texts in it."""
    if text is None:
        return "query"
    return _one_line(_TEXTS.sub("'…'", _COMMENTS.sub(" ", text[:10_000])))


def _one_line(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"


# --- displays ---------------------------------------------------------------------------------------------------------


def _bar(done: int, every: int) -> str:
    full = _BAR * done // every if every else 0
    return "█" * full + "░" * (_BAR - full)


def _display() -> Show:
    """Of the notebook, or of the terminal; nothing where there is neither."""
    if _is_notebook():
        return _Cell()
    return _terminal if sys.stderr.isatty() else lambda works: None


def _is_notebook() -> bool:
    """Whether this is a notebook's kernel. IPython is not imported: in a notebook, it is."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class _Cell:
    """Below the cell that runs: one output, which is changed while work goes on and removed afterwards."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, works: Sequence[Work]) -> None:
        from IPython.display import DisplayHandle

        text = "\n".join(str(work) for work in works)
        data = {"text/plain": text, "text/html": "<br>".join(_html(work) for work in works)}
        if self._handle is not None:
            self._handle.update(data, raw=True)
        elif works:
            self._handle = DisplayHandle()
            self._handle.display(data, raw=True)
        if not works:
            self._handle = None


def _html(work: Work) -> str:
    return (
        f'<span>{escape(work.name)} <progress value="{work.done}" max="{max(work.all, 1)}"></progress> '
        f"{work.done} of {work.all} tasks, {work.seconds:.0f} s</span>"
    )


def _terminal(works: Sequence[Work]) -> None:
    """One line, written over by the next; of several works the first, and how many others there are."""
    import shutil

    width = shutil.get_terminal_size().columns - 1
    line = str(works[0]) + (f"; {len(works) - 1} more" if len(works) > 1 else "") if works else ""
    sys.stderr.write(f"\r{line[:width]:<{width}}" + ("" if works else "\r"))
    sys.stderr.flush()
