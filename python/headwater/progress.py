"""Progress of running work by name: what runs, on which table, how much is done.

Owns the line that ``headwater.show_progress`` shows while Spark works: in a notebook below the cell, in a terminal on
standard error. The names are those that statements give their jobs, the same as in Spark's UI: ``OPTIMIZE sales: 1 of
2, compact 120 files of 8000000 bytes into 4``. Over Spark Connect a client is not told them; there a statement that
was given to ``spark.sql``, as all of ``DeltaTable`` are, is named by its first words. The names and amounts come from
:mod:`headwater.basics.running_work`. Spark's own bar, which would write to the same place, ends, unless the user has
set that it is drawn.

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
from html import escape
from types import TracebackType
from typing import Any, Protocol

from headwater.basics import running_work
from headwater.basics.running_work import Job, Watch, one_line, terminal_line
from headwater.basics.running_work import Work as Work  # noqa: PLC0414 - what a display of one's own is called with

#: Seconds between two looks at the jobs of a classic session.
_INTERVAL = 0.5
#: What a shell started by Headwater has in the place of Spark's bar.
_LINE_OF_SHELL = "org.apache.spark.sql.headwater.bridge.ProgressLine"
#: A text of SQL: ``'…'`` or ``"…"``; possessive in effect, since no alternative begins like another.
_TEXTS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
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


def follow(spark: Any, show: Show | None = None, asks_for_bar: Callable[[Any], bool] = lambda spark: False) -> Progress:
    """See :func:`headwater.show_progress`.

    :param asks_for_bar: whether the user of a classic session has set that Spark draws its own bar.
    """
    shown = show or _display()
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return _Connected(spark, shown)
    bar = spark._jsc.sc().progressBar()
    if bar.isDefined():
        if shown is _terminal and bar.get().getClass().getName() == _LINE_OF_SHELL:
            return _OfShell(bar.get())
        if not asks_for_bar(spark):
            bar.get().stop()
    return _Jobs(spark, shown)


class _Progress:
    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return "Work of more than a second is shown by name; stop() ends it."

    def _ipython_display_(self) -> None:
        """A cell that ends with the call shows nothing of it."""


# --- a classic session ------------------------------------------------------------------------------------------------


class _Jobs(_Progress):
    """Looks at the jobs of a Spark in this process, from a thread of its own."""

    def __init__(self, spark: Any, show: Show) -> None:
        self._spark = spark
        self._show = show
        self._over = threading.Event()
        self._watch = Watch()
        self._shows = False
        self._thread = threading.Thread(target=self._run, name="headwater progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            while not self._over.wait(_INTERVAL):
                works = self._watch.look(*self._running(), time.monotonic())
                if works is not None:
                    self._tell(works)
        except Exception:  # Spark was stopped, or the notebook is gone: there is nothing to show, and nobody to tell
            pass
        finally:
            self._tell(())

    def _running(self) -> tuple[list[Job], set[str]]:
        """The jobs that run, and the streams."""
        context = self._spark._jsc.sc()
        store = context.statusStore()
        numbers = list(context.statusTracker().getActiveJobIds())
        streams = {str(query.runId) for query in self._spark.streams.active} if numbers else set()
        return [job for number in numbers if (job := _job(store, number)) is not None], streams

    def _tell(self, works: Sequence[Work]) -> None:
        if works or self._shows:
            self._shows = bool(works)
            self._show(works)


def _job(store: Any, number: int) -> Job | None:
    """A job, and what its stages have read and written; None if Spark does not know it, as when it has just begun."""
    job = _known(store.job, number)
    if job is None:
        return None
    ids = job.stageIds()
    stages = [_known(store.lastStageAttempt, ids.apply(at)) for at in range(ids.size())]
    counted = [stage for stage in stages if stage is not None]
    return Job(
        str(job.description().get()) if job.description().isDefined() else "",
        str(job.jobGroup().get()) if job.jobGroup().isDefined() else "",
        job.numCompletedTasks() + job.numSkippedTasks(),
        job.numTasks(),
        sum(stage.inputRecords() for stage in counted),
        sum(stage.inputBytes() for stage in counted),
        sum(stage.outputRecords() for stage in counted),
    )


def _known(ask: Callable[[int], Any], number: int) -> Any:
    """What Spark's store has of this number; None if it has nothing."""
    from py4j.protocol import Py4JJavaError

    try:
        return ask(number)
    except Py4JJavaError:
        return None


class _OfShell(_Progress):
    """The line that a shell started by Headwater shows anyway, and takes away before the shell prints."""

    def __init__(self, line: Any) -> None:
        self._line = line

    def stop(self) -> None:
        self._line.stop()


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
        known = list(stages or ())
        with self._lock:
            began = self._began.setdefault(operation_id, now)
            if done:
                del self._began[operation_id]
                if self._works.pop(operation_id, None) is None:
                    return
            elif now - began >= running_work.PATIENCE:
                self._works[operation_id] = Work(
                    name,
                    sum(stage.num_completed_tasks for stage in known),
                    sum(stage.num_tasks for stage in known),
                    now - began,
                    bytes_read=sum(stage.num_bytes_read for stage in known),
                )
            else:
                return
            works = list(self._works.values())
        with contextlib.suppress(Exception):  # a display that is gone must not end the statement
            self._show(works)


def _named(text: str | None) -> str:
    """A statement's first words, without the texts in it."""
    if text is None:
        return running_work.UNNAMED
    return one_line(_TEXTS.sub("'…'", _COMMENTS.sub(" ", text[:10_000])))


# --- displays ---------------------------------------------------------------------------------------------------------


def _display() -> Show:
    """Of the notebook, or of the terminal; nothing if the session has no display."""
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
        f"{work.amount}</span>"
    )


def _terminal(works: Sequence[Work]) -> None:
    """One line, written over by the next."""
    import shutil

    width = shutil.get_terminal_size().columns - 1
    sys.stderr.write(f"\r{terminal_line(works, width):<{width}}" + ("" if works else "\r"))
    sys.stderr.flush()
