"""The handler process lives exactly as long as the JVM it belongs to, and is talked to by nobody else."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.cli import launch
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore

pytestmark = pytest.mark.spark

#: How long the handler may outlive its JVM, seconds.
MOMENT = 2.0


def ends_with(running: Any, end: Callable[[], Any], is_alive: Callable[[int], bool]) -> float:
    """End a JVM; the seconds its handler outlives it."""
    jvm, handler = running.jvm, running.handler
    end()
    deadline = time.monotonic() + 60
    while is_alive(jvm) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(jvm)
    gone = time.monotonic()
    while is_alive(handler) and time.monotonic() < gone + 20:
        time.sleep(0.01)
    assert not is_alive(handler), "an orphan"
    return time.monotonic() - gone


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_ends_with_a_killed_jvm(sparks: Any, alive: Callable[[int], bool], number: signal.Signals) -> None:
    driver = sparks.driver()
    driver.rows("CREATE TABLE t USING delta AS SELECT 1 AS a")
    # A call is under way: a thread of the handler is busy with it.
    (driver.faults.folder / "after_put.wait").touch()
    driver.ask("sql", text="INSERT INTO t VALUES (2)")
    time.sleep(2)
    jvm = driver.jvm
    assert ends_with(driver, lambda: os.kill(jvm, number), alive) < MOMENT


_MAIN = """
import org.apache.spark.sql.SparkSession;

public class Main {
    public static void main(String[] arguments) {
        SparkSession spark = SparkSession.builder().getOrCreate();
        spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS a").collect();
        System.out.println("rows: " + spark.sql("SELECT * FROM t").count());
        %s
    }
}
"""


@pytest.mark.alone
@pytest.mark.soak  # the usual run has a program that ends in test_delta_names.py, and above how soon the handler ends
@pytest.mark.parametrize(("ending", "code"), [('throw new RuntimeException("main fails");', 1), ("", 0)])
def test_ends_with_the_main_method(sparks: Any, tmp_path: Path, ending: str, code: int) -> None:
    """An application's JVM ends when its main method does: the bridge's threads do not keep it."""
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK")
    (tmp_path / "Main.java").write_text(_MAIN % ending)
    jars = str(launch.spark_home() / "jars" / "*")
    subprocess.run(["javac", "-cp", jars, "-d", str(tmp_path), str(tmp_path / "Main.java")], check=True)
    subprocess.run([sys.executable, "-m", "zipfile", "-c", "main.jar", "Main.class"], cwd=tmp_path, check=True)
    application = sparks.shell("spark-submit", ["--class", "Main", str(tmp_path / "main.jar")])
    handler = application.handler
    assert application.process.wait(120) == code, application.log[-3000:]
    gone = time.monotonic()
    while _exists(handler) and time.monotonic() < gone + 20:
        time.sleep(0.01)
    assert time.monotonic() - gone < MOMENT
    assert "rows: 1" in application.output
    assert ("main fails" in application.log) == (code == 1)


@pytest.mark.soak  # the usual run has it where the shell of test_cancelling.py ends
def test_a_compaction_that_the_last_commit_made_due_is_waited_for(sparks: Any, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/t`"
    statements = [
        "SET spark.databricks.delta.autoCompact.minNumFiles = 4",
        f"CREATE TABLE {table} (a INT) USING delta TBLPROPERTIES ('delta.autoOptimize' = 'true')",
        *[f"INSERT INTO {table} VALUES ({number})" for number in range(4)],
    ]
    application = sparks.shell("spark-sql", ["-e", "; ".join(statements)])
    assert application.process.wait(240) == 0, application.log[-3000:]
    assert load_snapshot(f"{tmp_path}/t", LocalStore()).num_files == 1, application.log[-3000:]


def _wait(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_nobody_else_is_answered(classic: Any) -> None:
    """Both sides listen on loopback alone, and hang up on who does not know the token."""
    classic.rows("SELECT 1")
    ports = {**listening(classic.jvm), **listening(classic.handler)}
    own = listening(classic.handler)
    assert len(own) == 1
    assert set(ports.values()) <= {"127.0.0.1", "[::ffff:127.0.0.1]"}, ports
    for port in ports:
        for message in (b"c\nt\ncall\nsload_table\ns{}\nn\ne\n", b"A\nwrong\n", b"i\njava.lang.Object\ne\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
                stranger.sendall(message)
                assert not hears_yes(stranger), (port, message)
    assert classic.rows("SELECT 1") == [[1]]


def hears_yes(stranger: socket.socket) -> bool:
    """Whether the other side answers with anything but an error before it hangs up; Spark's own ports say nothing."""
    stranger.settimeout(2)
    try:
        return stranger.recv(100).startswith(b"!y")
    except OSError:
        return False


def listening(pid: int) -> dict[int, str]:
    """The TCP ports a process listens on, and the addresses."""
    if shutil.which("ss") is None:
        pytest.skip("needs ss")
    lines = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    own = [line.split()[3] for line in lines if f"pid={pid}," in line]
    return {int(address.rpartition(":")[2]): address.rpartition(":")[0] for address in own}


def test_the_token_is_in_no_command_line_or_environment(classic: Any) -> None:
    for pid in (classic.jvm, classic.handler):
        for source in ("cmdline", "environ"):
            shown = Path(f"/proc/{pid}/{source}")
            if not shown.exists():
                pytest.skip("needs /proc")
            assert not re.search(rb"\b[0-9a-f]{64}\b", shown.read_bytes())


@pytest.fixture(scope="module")
def interpreted(sparks: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A driver, and the interpreter that it is to start the handler with, which is not there yet."""
    python = tmp_path_factory.mktemp("interpreter") / "python"
    return sparks.driver(settings={"spark.headwater.python": str(python)}), python


#: What the start-up files of an interpreter print is no answer.
MENDED = f'echo welcome\nexec {sys.executable} "$@"'


def test_an_interpreter_without_headwater(interpreted: tuple[Any, Path]) -> None:
    """The error lists what was tried and why that was not it; once it is mended, the next statement works."""
    driver, python = interpreted

    def refused(reason: str, condition: str = "HEADWATER_HANDLER_NOT_STARTED") -> None:
        found = driver.sql("CREATE TABLE t (a INT) USING delta")
        assert (found["condition"], found["state"]) == (condition, "58000")
        assert ("pip install" in found["text"]) == (condition == "HEADWATER_HANDLER_NOT_STARTED")
        assert str(python) in found["text"]
        assert reason in found["text"]
        assert driver.rows("SELECT 1") == [[1]], "what is not a Delta table works"

    refused("No such file")
    write_script(python, "echo 'No module named headwater' >&2\nexit 1")
    refused("No module named headwater")
    for script, reason in (
        ("kill -9 $$", "signal 9"),
        ("exit 3", "exit code 3"),
        ("echo 'no room for threads' >&2\nexit 1", "exit code 1: no room for threads"),
        ("exec 1>&-\nkill -15 $$", "signal 15"),
        (old_python("headwater.handler"), "needs Python 3.10 or newer"),
    ):
        write_script(python, script)
        refused(reason, "HEADWATER_HANDLER_ENDED_AT_START")
    # Python 3.10 does not know the variable that keeps the working directory out. The file that puts faults into the
    # handler imports modules before that directory counts.
    traps = [driver.home / f"{module}.py" for module in ("headwater", "json", "runpy", "types", "numpy")]
    for trap in traps:
        trap.write_text("raise SystemExit(7)")
    write_script(python, f"unset PYTHONSAFEPATH PYTHONPATH\n{MENDED}")
    driver.rows("CREATE TABLE t USING delta AS SELECT 1 AS a")
    for trap in traps:
        trap.unlink()
    os.kill(driver.handler, signal.SIGKILL)  # the next one has faults again


def old_python(module: str) -> str:
    """A line that runs a module of the package under an interpreter which says that it is Python 3.9."""
    program = f"import runpy, sys; sys.version_info = (3, 9, 2); runpy.run_module('{module}', run_name='__main__')"
    return f'exec {sys.executable} -c "{program}"'


def write_script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_spark_stops_while_a_compaction_runs(interpreted: tuple[Any, Path], tmp_path: Path) -> None:
    """``spark.stop()`` does not wait for it: it ends with nothing half-written, and the log says so."""
    driver, python = interpreted
    write_script(python, MENDED)
    table, faults = f"delta.`{tmp_path}/t`", driver.faults
    driver.rows("SET spark.databricks.delta.autoCompact.minNumFiles = 4")
    driver.rows(f"CREATE TABLE {table} (a INT) USING delta TBLPROPERTIES ('delta.autoOptimize' = 'true')")
    for number in range(3):
        driver.rows(f"INSERT INTO {table} VALUES ({number})")
    with faults.hold_at("after_write") as has_written:
        driver.ask("sql", text=f"INSERT INTO {table} VALUES (3)")
        _wait(has_written)
        (faults.folder / "before_write.wait").touch()
    assert "rows" in driver.answer()
    _wait((faults.folder / "before_write.waits").exists)
    driver.process.stdin.close()
    # Its job is asked for once Spark has stopped, or while it does.
    time.sleep(2)
    (faults.folder / "before_write.wait").unlink()
    driver.process.wait(60)
    _wait(lambda: "its auto-compaction ends as well" in driver.log)
    now = load_snapshot(f"{tmp_path}/t", LocalStore())
    live = set(now.files["path"].to_pylist())
    assert (now.version, len(live)) == (4, 4)
    assert {file.name for file in (tmp_path / "t").glob("*.parquet")} == live


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.soak  # that the handler ends, the usual run sees where the JVM is killed and where its main method ends
def test_start_costs_little_and_the_handler_ends_after_stop(sparks: Any, alive: Callable[[int], bool]) -> None:
    """From the start of a process to its first rows, beside a plain Spark's; printed, as machines differ."""
    times = {}
    for kind, text in (
        ("plain", "CREATE TABLE t USING parquet AS SELECT 1 AS a"),
        ("classic", "CREATE TABLE t USING delta AS SELECT 1 AS a"),
    ):
        started = time.monotonic()
        driver = sparks.driver(kind)
        driver.rows(text)
        driver.rows("SELECT * FROM t")
        times[kind] = time.monotonic() - started
        if kind == "classic":
            assert ends_with(driver, driver.process.stdin.close, alive) < MOMENT
        driver.stop()
    print(f"\nfrom start to first rows: Spark {times['plain']:.2f} s, with Headwater {times['classic']:.2f} s")
    assert times["classic"] < times["plain"] * 2 + 10
