"""Progress of running work by name: what is shown of jobs and of Spark Connect's stages, and where."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace

import pytest

import headwater
from headwater import progress
from headwater.progress import Work

_STREAM = "5b6a0e0e-0000-4000-8000-000000000000"


class Some:
    def __init__(self, value: object) -> None:
        self.value = value

    def isDefined(self) -> bool:  # as Scala's option
        return self.value is not None

    def get(self) -> object:
        return self.value


class Jobs:
    """A classic session with jobs that a test begins and ends."""

    def __init__(self) -> None:
        self.jobs: dict[int, SimpleNamespace] = {}
        self.fails = False
        self._jsc = self
        self.streams = SimpleNamespace(active=[SimpleNamespace(runId=_STREAM)])

    def sc(self) -> Jobs:
        return self

    def statusStore(self) -> SimpleNamespace:
        return SimpleNamespace(job=self.jobs.__getitem__)

    def statusTracker(self) -> SimpleNamespace:
        if self.fails:
            raise ConnectionError("Spark was stopped")
        return SimpleNamespace(getActiveJobIds=lambda: list(self.jobs))

    def run(self, number: int, description: str | None, done: int, tasks: int, group: str | None = None) -> None:
        self.jobs[number] = SimpleNamespace(
            description=lambda: Some(description),
            jobGroup=lambda: Some(group),
            numCompletedTasks=lambda: done,
            numSkippedTasks=lambda: 1,
            numTasks=lambda: tasks,
        )


class Stage(SimpleNamespace):
    """What a client of Spark Connect knows of a stage."""


class Connected:
    """A session of Spark Connect, whose statements are what the test says."""

    def __init__(self) -> None:
        self.handlers: list[Callable[..., None]] = []
        self.client = SimpleNamespace(_progress_handlers=self.handlers)
        self.registerProgressHandler = self.handlers.append
        self.removeProgressHandler = self.handlers.remove

    def sql(self, sqlQuery: str, args: object = None) -> str:
        self.work("1")
        return f"answer of {sqlQuery}"

    def work(self, operation: str) -> None:
        for done in (1, 3):
            for handler in list(self.handlers):
                stages = [Stage(num_completed_tasks=done, num_tasks=6), Stage(num_completed_tasks=0, num_tasks=2)]
                handler(stages=stages, inflight_tasks=1, operation_id=operation, done=False)
        for handler in list(self.handlers):
            handler(stages=[], inflight_tasks=0, operation_id=operation, done=True)


Connected.__module__ = "pyspark.sql.connect.session"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_INTERVAL", 0.01), ("_PATIENCE", 0.0), ("_GAP", 0.05)):
        monkeypatch.setattr(progress, name, value)


def _until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not found():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_jobs_are_shown_by_their_names() -> None:
    """Jobs of one step together; neither jobs without a name, nor streams, nor what runs in the background."""
    spark, seen = Jobs(), list[Sequence[Work]]()
    spark.run(1, "OPTIMIZE sales: 1 of 2, compact 12 files\n of 900 bytes into 2", 1, 4)
    spark.run(2, "OPTIMIZE sales: 1 of 2, compact 12 files of 900 bytes into 2", 2, 5)
    spark.run(3, None, 0, 9)
    spark.run(4, "compact sales", 0, 9, "headwater auto-compaction")
    spark.run(5, "WRITE_STREAM sales", 0, 9, _STREAM)
    with headwater.show_progress(spark, seen.append):
        _until(lambda: bool(seen))
        assert {(w.name, w.done, w.all) for w in seen[-1]} == {
            ("OPTIMIZE sales: 1 of 2, compact 12 files of 900 bytes into 2", 5, 9)
        }
        spark.jobs.clear()
        _until(lambda: not seen[-1])
    assert [bool(works) for works in seen].count(False) == 1


def test_a_statement_began_with_its_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.2)
    spark, seen = Jobs(), list[Sequence[Work]]()
    spark.run(1, "UPDATE sales: 1 of 2, find matching rows", 0, 4)
    with headwater.show_progress(spark, seen.append):
        time.sleep(0.1)
        assert not seen
        _until(lambda: bool(seen))
        spark.jobs.clear()
        spark.run(2, "UPDATE sales: 2 of 2, write the files with updated rows", 0, 4)
        _until(lambda: "2 of 2" in seen[-1][0].name if seen[-1] else False)
        assert all(work.seconds >= 0.2 for works in seen for work in works)


def test_a_spark_that_stops_ends_it_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    spark, seen = Jobs(), list[Sequence[Work]]()
    spark.run(1, "DELETE sales", 0, 1)
    shown = headwater.show_progress(spark, seen.append)
    _until(lambda: bool(seen))
    spark.fails = True
    _until(lambda: not any(thread.name == "headwater progress" for thread in threading.enumerate()))
    shown.stop()
    assert seen[-1] == ()
    assert capsys.readouterr() == ("", "")


def test_over_connect_statements_are_named_by_their_words() -> None:
    spark, seen = Connected(), list[Sequence[Work]]()
    text = "INSERT INTO sales -- 'a' note\n  VALUES (1, 'it''s secret', \"secret\\\" too\")"
    with headwater.show_progress(spark, seen.append):
        assert spark.sql(text) == f"answer of {text}"
        assert [[(w.name, w.done, w.all) for w in works] for works in seen] == [
            [("INSERT INTO sales VALUES (1, '…''…', '…')", 1, 8)],
            [("INSERT INTO sales VALUES (1, '…''…', '…')", 3, 8)],
            [],
        ]
        seen.clear()
        spark.work("2")
        assert seen[0][0].name == "query"
    seen.clear()
    assert not spark.handlers
    assert spark.sql("SELECT 1") == "answer of SELECT 1"
    assert not seen


def test_a_display_that_fails_ends_no_statement() -> None:
    def broken(works: Sequence[Work]) -> None:
        raise OSError("gone")

    spark = Connected()
    headwater.show_progress(spark, broken)
    assert spark.sql("OPTIMIZE sales") == "answer of OPTIMIZE sales"


def test_a_notebook_shows_one_output_and_removes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, dict[str, str]]] = []

    class DisplayHandle:
        def display(self, data: dict[str, str], raw: bool) -> None:
            sent.append(("display", data))

        def update(self, data: dict[str, str], raw: bool) -> None:
            sent.append(("update", data))

    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    display.DisplayHandle = DisplayHandle
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    spark = Connected()
    with headwater.show_progress(spark):
        spark.sql("OPTIMIZE `<img src=x>`")
    assert [how for how, _ in sent] == ["display", "update", "update"]
    assert '<progress value="3" max="8">' in sent[1][1]["text/html"]
    assert "&lt;img src=x&gt;" in sent[1][1]["text/html"]
    assert sent[1][1]["text/plain"] == "OPTIMIZE `<img src=x>`  ███████░░░░░░░░░░░░░ 3 of 8 tasks, 0 s"
    assert sent[2][1] == {"text/plain": "", "text/html": ""}


def test_a_terminal_shows_a_line_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    spark = Connected()
    with headwater.show_progress(spark):
        spark.sql("OPTIMIZE sales")
    lines = terminal.getvalue().split("\r")
    assert lines[1] == f"{'OPTIMIZE sales  ██░░░░░░░░░░░░░░░░░░ 1 of 8 tasks, 0 s':<59}"
    assert lines[3].isspace()
    assert lines[4] == ""


def test_elsewhere_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    spark = Connected()
    with headwater.show_progress(spark):
        spark.sql("OPTIMIZE sales")
    assert capsys.readouterr() == ("", "")
