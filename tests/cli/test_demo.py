"""The demo's script is cut into statements as written, fits a terminal, and runs."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import deltalake
import pytest
from rich.console import Console

from headwater.cli import demo, pictures
from support.sparks import archive

_SCRIPT = Path(demo.__file__).with_suffix(".sql")


def test_parse_keeps_statements_captions_and_chapters() -> None:
    script = ["-- about the file", "", "-- # One", "", "-- First", "-- thing", "SELECT", "  1;", ""]
    script += ["SELECT ';' AS a;", "-- show: a, b", "SELECT 2;"]
    first, second, third = demo.parse("\n".join(script))
    assert (first.chapter, first.caption, first.sql) == ("One", "First thing", "SELECT\n  1")
    assert (second.chapter, second.caption, second.sql) == ("", "", "SELECT ';' AS a")
    assert (third.caption, third.shown, third.sql) == ("", ["a", "b"], "SELECT 2")


def test_script_fits_80_columns() -> None:
    statements = list(demo.parse(_SCRIPT.read_text(encoding="utf-8")))
    assert len(statements) > 15
    assert [line for statement in statements for line in f"{statement.sql};".splitlines() if len(line) > 80] == []


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(RuntimeError, match="not empty"):
        demo.run_demo(tmp_path, None)


def test_a_demo_that_was_run_before_keeps_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert demo._new_directory() == Path("headwater-demo")
    (tmp_path / "headwater-demo" / "flights").mkdir(parents=True)
    (tmp_path / "headwater-demo-2").touch()
    (tmp_path / "headwater-demo-3").mkdir()
    assert demo._new_directory() == Path("headwater-demo-3")


def test_pictures(tmp_path: Path) -> None:
    odd = "<b>[red]&"
    bars = [
        pictures.Bar(odd, (1, 3), odd),
        pictures.Bar("nothing", (0, 4), "0"),
        pictures.Bar("tiny", (0.001,), "1 µs"),
    ]
    picture = pictures.Picture(odd, odd, bars)
    console = Console(width=60, record=True, file=io.StringIO())
    pictures.print_picture(console, picture)
    lines = console.export_text().splitlines()
    assert lines[:2] == [odd, odd]
    assert [(line.count("█"), line.count("░")) for line in lines[2:]] == [(10, 29), (0, 39), (1, 0)]
    assert max(map(len, lines)) <= 60
    html = pictures.report(odd, odd, [picture], [(odd, odd)])
    assert "<b>" not in html
    ElementTree.fromstring(pictures.svg(picture))
    empty = pictures.Picture("none", "", [pictures.Bar("x", (0,), "0")])
    ElementTree.fromstring(pictures.svg(empty))


@pytest.mark.spark
@pytest.mark.slow
def test_runs_from_end_to_end(tmp_path: Path) -> None:
    """The command as a user types it: the real flights, every statement once, the tables left where it says."""
    tables = tmp_path / "headwater-demo"
    command = [sys.executable, "-c", "from headwater.cli.main import main; main()", "demo", "--cores", "2"]
    environment = {**os.environ, "PYTHONPATH": str(Path(demo.__file__).parents[1]), "COLUMNS": "80"}
    environment["SPARK_SUBMIT_OPTS"] = archive.options()
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert f"{demo.FLIGHTS:,} flights in the table." in run.stdout
    beginnings = [each.sql.splitlines()[0].rstrip()[:50] for each in demo.parse(_SCRIPT.read_text(encoding="utf-8"))]
    shown = [line.strip() for line in run.stdout.splitlines()]
    for each in beginnings:
        assert sum(line.startswith(each) for line in shown) == sum(other.startswith(each) for other in beginnings), each
    assert [line for line in run.stdout.splitlines() if len(line) > 80 and str(tables) not in line] == []
    assert "Traceback" not in run.stderr
    for name in ("flights", "airlines", "planes", "weather"):
        assert (tables / name / "_delta_log" / f"{0:020d}.json").is_file()
    last = shlex.split(run.stdout.splitlines()[-1])
    assert last == ["headwater", "inspect", "headwater-demo/flights"]
    report = (tables / "headwater-demo.html").read_text(encoding="utf-8")
    assert report.count("<svg") == 2
    read = [
        re.search(rf"{label}\s.* (\d+) read, (\d+) skipped", run.stdout) for label in ("December", "winter", "July")
    ]
    files = [(int(each[1]), int(each[2])) for each in read if each]
    assert {sum(each) for each in files} in ({12}, {13}, {14}), (
        files
    )  # a month whose rows two tasks wrote has two files
    assert len(files) == 3
    assert all(1 <= number <= 5 for number, _ in files), files
    flights = deltalake.DeltaTable(str(tables / "flights"))
    assert flights.to_pyarrow_dataset().count_rows() == demo.FLIGHTS
