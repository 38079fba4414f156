"""Progress of running work by name: what is shown of jobs and of Spark Connect's stages, and where."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import headwater
from headwater import progress
from headwater.basics import running_work
from headwater.basics.running_work import Job, Watch, Work, terminal_line

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
        self._jvm: SimpleNamespace | None = None
        self.bar: SimpleNamespace | None = None
        self.streams = SimpleNamespace(active=[SimpleNamespace(runId=_STREAM)])

    def sc(self) -> Jobs:
        return self

    def progressBar(self) -> Some:
        return Some(self.bar)

    def statusStore(self) -> SimpleNamespace:
        return SimpleNamespace(job=self.jobs.__getitem__, lastStageAttempt=STAGES.__getitem__)

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
            stageIds=lambda: SimpleNamespace(size=lambda: len(STAGES), apply=list(STAGES).__getitem__),
        )


def stage(read: int, read_bytes: int, written: int) -> SimpleNamespace:
    return SimpleNamespace(inputRecords=lambda: read, inputBytes=lambda: read_bytes, outputRecords=lambda: written)


#: The stages of every job, by their numbers.
STAGES = {7: stage(1000, 5000, 0), 9: stage(500, 0, 20)}


class Stage(SimpleNamespace):
    """What a client of Spark Connect knows of a stage."""


class Connected:
    """A session of Spark Connect, whose statements are what the test says."""

    def __init__(self) -> None:
        self.handlers: list[Callable[..., None]] = []
        self.read = 0
        self.client = SimpleNamespace(_progress_handlers=self.handlers)
        self.registerProgressHandler = self.handlers.append
        self.removeProgressHandler = self.handlers.remove

    def sql(self, sqlQuery: str, args: object = None) -> str:
        self.work("1")
        return f"answer of {sqlQuery}"

    def work(self, operation: str) -> None:
        for done in (1, 3):
            for handler in list(self.handlers):
                stages = [
                    Stage(num_completed_tasks=done, num_tasks=6, num_bytes_read=self.read),
                    Stage(num_completed_tasks=0, num_tasks=2, num_bytes_read=self.read),
                ]
                handler(stages=stages, inflight_tasks=1, operation_id=operation, done=False)
        for handler in list(self.handlers):
            handler(stages=[], inflight_tasks=0, operation_id=operation, done=True)


Connected.__module__ = "pyspark.sql.connect.session"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_INTERVAL", 0.01)
    monkeypatch.setattr(running_work, "PATIENCE", 0.0)
    monkeypatch.setattr(running_work, "GAP", 0.05)


def _until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not found():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_jobs_are_shown_by_their_names() -> None:
    """Jobs of one step together, those without a name as well; neither streams nor what runs in the background."""
    spark, seen = Jobs(), list[Sequence[Work]]()
    spark.run(1, "OPTIMIZE sales: 1 of 2, compact 12 files\n of 900 bytes into 2", 1, 4)
    spark.run(2, "OPTIMIZE sales: 1 of 2, compact 12 files of 900 bytes into 2", 2, 5)
    spark.run(3, None, 0, 9)
    spark.run(4, "compact sales", 0, 9, "headwater auto-compaction")
    spark.run(5, "WRITE_STREAM sales", 0, 9, _STREAM)
    with headwater.show_progress(spark, seen.append):
        _until(lambda: bool(seen))
        work, unnamed = seen[-1]
        assert (work.name, work.done, work.all) == (
            "OPTIMIZE sales: 1 of 2, compact 12 files of 900 bytes into 2",
            5,
            9,
        )
        assert (unnamed.name, unnamed.done, unnamed.all) == ("query", 1, 9)
        assert (work.rows_read, work.bytes_read, work.rows_written) == (3000, 10000, 40)
        spark.jobs.clear()
        _until(lambda: not seen[-1])
    assert [bool(works) for works in seen].count(False) == 1


def test_a_statement_began_with_its_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_work, "PATIENCE", 0.2)
    monkeypatch.setattr(running_work, "GAP", 2.0)
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


def bar(name: str, stopped: list[str]) -> SimpleNamespace:
    kind = SimpleNamespace(getName=lambda: name)
    return SimpleNamespace(stop=lambda: stopped.append("stopped"), getClass=lambda: kind)


def test_a_shells_own_line_stays_in_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would write over each other. It goes for another display, and when it is told to stop."""
    monkeypatch.setattr(progress, "_display", lambda: progress._terminal)
    spark, stopped = Jobs(), list[str]()
    spark.bar = bar("org.apache.spark.sql.headwater.bridge.ProgressLine", stopped)
    shown = headwater.show_progress(spark)
    assert not stopped
    shown.stop()
    assert stopped == ["stopped"]
    progress.follow(spark, lambda works: None).stop()
    assert stopped == ["stopped", "stopped"]


@pytest.mark.parametrize(
    ("command", "defaults", "ends"),
    [
        ("org.apache.spark.deploy.SparkSubmit --conf spark.ui.showConsoleProgress=false pyspark-shell", "", True),
        ("org.apache.spark.deploy.SparkSubmit --name PySparkShell pyspark-shell", "", True),
        ("org.apache.spark.deploy.SparkSubmit --conf spark.ui.showConsoleProgress=true pyspark-shell", "", False),
        ("org.apache.spark.deploy.SparkSubmit pyspark-shell", "spark.ui.showConsoleProgress true", False),
    ],
)
def test_sparks_own_bar_ends_unless_the_user_has_set_it(
    command: str, defaults: str, ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    spark, stopped = Jobs(), list[str]()
    spark.bar = bar("org.apache.spark.ui.ConsoleProgressBar", stopped)
    system = SimpleNamespace(getProperty={"sun.java.command": command}.__getitem__)
    spark._jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
    headwater.show_progress(spark, lambda works: None).stop()
    assert stopped == (["stopped"] if ends else [])


def test_a_line_keeps_the_amount_and_shortens_the_name() -> None:
    work = Work("OPTIMIZE sales: 1 of 2, compact 120 files of 8000000 bytes into 4", 12, 40, 5.2, 1_200_000, 1, 300)
    amount = "12 of 40 tasks, 1,200,000 rows read, 300 rows written, 5 s"
    assert terminal_line([work], 200) == f"{work.name}  ██████░░░░░░░░░░░░░░ {amount}"
    assert terminal_line([work], 90) == f"OPTIMIZE sales: 1 of 2, compa…  {amount}"
    assert terminal_line([work, work], 98) == f"OPTIMIZE sales: 1 of 2, compa…  {amount}; 1 more"
    assert len(terminal_line([work], 40)) == 40
    assert terminal_line([Work("query", 0, 2, 30.0, bytes_read=2_500_000)], 80).endswith("tasks, 2.5 MB read, 30 s")
    assert terminal_line([], 80) == ""


def test_between_two_jobs_what_is_shown_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_work, "PATIENCE", 1.0)
    monkeypatch.setattr(running_work, "GAP", 2.0)
    watch, job = Watch(), Job("MERGE sales: 1 of 3, find matching rows", "", 0, 2)
    assert watch.look([job], (), 100.0) == []
    assert watch.look([], (), 101.5) is None
    (work,) = watch.look([job], (), 101.9) or ()
    assert work.seconds == pytest.approx(1.9)
    assert watch.look([], (), 104.5) == []
    assert watch.look([job], (), 106.0) == []  # another statement


def test_a_cell_that_ends_with_the_call_shows_no_object(capsys: pytest.CaptureFixture[str]) -> None:
    """A notebook shows nothing of what is returned, and a shell says what it is for."""
    with headwater.show_progress(Jobs(), [].append) as shown:
        assert repr(shown) == "Work of more than a second is shown by name; stop() ends it."
        shown._ipython_display_()  # which IPython calls in place of all other ways to show an object
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
        spark.read = 4_000_000
        spark.work("2")
        assert seen[0][0].amount == "1 of 8 tasks, 8.0 MB read, 0 s"
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
