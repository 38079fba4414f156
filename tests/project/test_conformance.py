"""The conformance board: its record is whole, its page is made of it, and its verdicts can fail."""

from __future__ import annotations

import json
import runpy
import sys
from types import SimpleNamespace
from typing import cast

import pytest
from conformance import page, worker
from conformance.cases import CASES, CHECKPOINT, NOT_RUN
from conformance.engines import ENGINES, OURS, PEER
from conformance.engines.delta_rs import DeltaRs
from conformance.running import Run, Running
from conformance.types import TYPES
from conformance.verdicts import (
    ABSENT,
    DIRECTIONS,
    FAILS,
    PASSES,
    REFUSES,
    THEY_READ,
    Known,
    Verdict,
    complaints,
    known,
    of_error,
    of_rows,
)
from conformance.witness import lacking
from typer.testing import CliRunner

from headwater.protocol.features import FEATURES
from headwater.protocol.types import PRIMITIVES
from support.paths import ROOT

CELL = (THEY_READ, "duckdb", "no feature")


@pytest.fixture(scope="module")
def record():
    return page.recorded()


def test_every_feature_and_every_type_has_a_cell(record):
    covered = {name for case in CASES.values() for name in case.covers}
    assert FEATURES.keys() - covered == NOT_RUN.keys()
    assert not covered & NOT_RUN.keys()
    assert {*PRIMITIVES, "decimal", "array", "map", "struct"} <= TYPES.keys()
    assert {"geometry", "geography", "char", "varchar"} <= TYPES.keys()
    cells = page.cells_of(record)
    assert {case for direction, engine, case in cells if (direction, engine) == (THEY_READ, PEER)} == CASES.keys()
    assert {direction for direction, *_ in cells} >= set(DIRECTIONS)
    ran = {engine for engine, usual in ((each.name, each.usual) for each in ENGINES.values()) if usual}
    assert ran <= record["engines"].keys()


def test_the_recorded_failures_are_those_that_are_explained(record):
    assert complaints(page.cells_of(record), known()) == []
    cells = page.cells_of(record)
    for each in known():
        assert each.why.endswith(".")
        of_each = {cells[direction, name, case].kind for direction, case in each.cells for name in each.engines}
        assert of_each == {FAILS}


def test_the_page_is_made_of_the_record(record, tmp_path):
    text = (ROOT / "docs" / "conformance.md").read_text("utf-8")
    filled = runpy.run_path(str(ROOT / ".ci" / "site.py"))["filled"](text, "conformance.md")
    assert "<!-- conformance" not in filled
    for name, run in record["engines"].items():
        assert name == OURS or f"| {ENGINES[name].title} | {run['version']}, {run['when']} |" in filled
    for number in range(1, len(known()) + 1):
        assert f'id="failure-{number}"' in filled
    record["cells"][THEY_READ]["duckdb"]["no feature"] = [REFUSES, "it | knows <none>"]
    other = tmp_path / "board.json"
    other.write_text(json.dumps(record), "utf-8")
    changed = page.tables(THEY_READ, other)
    assert changed != page.tables(THEY_READ)
    assert '<abbr title="it &#124; knows &lt;none&gt;">refuses</abbr>' in changed


class _Losing(DeltaRs):
    """A reader that loses the last row."""

    def read(self, case, path):
        rows = super().read(case, path)
        return rows.slice(0, len(rows) - 1)


class _Changing(DeltaRs):
    """A reader that shows another value."""

    def read(self, case, path):
        rows = super().read(case, path)
        number = rows.column_names.index("a")
        return rows.set_column(
            number, "a", rows.column("a").combine_chunks().fill_null(0).cast("int32").take([0] * len(rows))
        )


@pytest.mark.parametrize("name", ["deletionVectors", "MERGE", "decimal, nested", "INSERT OVERWRITE"])
def test_a_reader_that_loses_or_changes_a_row_fails(name, tmp_path):
    case = CASES[name]
    worker.make(DeltaRs(with_queries=True), case, tmp_path / "t")
    whole, less = (worker.read(reader(with_queries=True), case, tmp_path / "t") for reader in (DeltaRs, _Losing))
    assert of_rows(case.truth(), whole) == Verdict(PASSES)
    assert of_rows(case.truth(), less).kind == FAILS
    if "a" in whole["columns"]:
        other = worker.read(_Changing(with_queries=True), case, tmp_path / "t")
        assert of_rows(case.truth(), other).kind == FAILS
    worker.add(DeltaRs(with_queries=True), case, tmp_path / "t")
    more = worker.read(DeltaRs(with_queries=True), case, tmp_path / "t")
    assert of_rows(case.truth(grown=True), more) == Verdict(PASSES)
    assert of_rows(case.truth(), more).kind == FAILS


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("deletionVectors", "deletion vectors"),
        ("changes of DELETE, marking rows", "deletion vectors"),
        ("v2Checkpoint", "the feature v2Checkpoint"),
        ("columnMapping by name", ""),
        ("checkConstraints", ""),
        ("classic checkpoint, statistics as structs", ""),
        ("MERGE", ""),
    ],
)
def test_a_table_that_lacks_what_its_case_is_about_is_no_pass(name, lacks, tmp_path):
    """delta-rs records properties that it does nothing for: the rows are right, and show nothing of the feature."""
    case = CASES[name]
    assert worker.make(DeltaRs(with_queries=True), case, tmp_path / "t") == lacks
    for engine, kind in ((PEER, ABSENT), (OURS, FAILS)):
        run = Run(tmp_path, [], [case], None)
        run._running[engine] = cast(Running, SimpleNamespace(ask=lambda *_: {"result": lacks}))
        made = run._make(ENGINES[engine], case)
        assert made is None if not lacks else (made.kind, lacks in made.text) == (kind, True)


def test_kinds_of_checkpoints_are_told_apart(tmp_path):
    """Each case that names a kind is refused for the log of another."""
    cases = [case for case in CASES.values() if case.group == CHECKPOINT and "checkpoint" in case.name]
    assert len(cases) > 6
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    assert all(lacking(case, tmp_path / "t") for case in cases)
    worker.make(DeltaRs(with_queries=True), CASES["classic checkpoint"], tmp_path / "c")
    left = {case.name: lacking(case, tmp_path / "c") for case in cases}
    assert left["classic checkpoint"] == ""
    assert left["classic checkpoint, several parts"] == "several parts"
    assert left["classic checkpoint, statistics as structs"] == "statistics as structs"
    assert left["v2 checkpoint, json"] == "v2 checkpoint, json"
    assert "several sidecars" in left["v2 checkpoint, several sidecars"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Unsupported reader features: typeWidening", REFUSES),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near 'BEGIN'", REFUSES),
        ("The column mapping mode id is not supported", REFUSES),
        ("IndexError: list index out of range", FAILS),
        ("the process ended with code -11", FAILS),
        ("File not found", FAILS),
    ],
)
def test_only_an_error_that_says_what_is_not_supported_is_a_refusal(text, kind):
    assert of_error(text).kind == kind


_LISTED = [Known("duckdb", frozenset({CELL[::2]}), "DuckDB", "It is.")]
_MISSING = Verdict(FAILS, "1 of 3 rows missing, 0 that are not there; the first: [[1]], []")


@pytest.mark.parametrize(
    ("verdict", "listed", "before", "code"),
    [
        (Verdict(PASSES), [], Verdict(PASSES), 0),
        (Verdict(REFUSES, "unsupported"), [], Verdict(REFUSES, "not supported"), 0),
        (_MISSING, [], Verdict(PASSES), 1),
        (_MISSING, _LISTED, _MISSING, 0),
        (Verdict(FAILS, _MISSING.text.replace("[[1]]", "[[2]]")), _LISTED, _MISSING, 0),
        (Verdict(FAILS, "3 of 3 rows missing, 0 that are not there; the first: [[1]], []"), _LISTED, _MISSING, 1),
        (Verdict(FAILS, "the process ended with code -11"), _LISTED, _MISSING, 1),
        (Verdict(FAILS, "AnalysisException: [A] x"), _LISTED, Verdict(FAILS, "AnalysisException: [B] x"), 1),
        (Verdict(FAILS, "OSError: no /a/2.parquet"), _LISTED, Verdict(FAILS, "OSError: no /a/1.parquet"), 0),
        (Verdict(PASSES), _LISTED, _MISSING, 1),
        (Verdict(REFUSES, "unsupported"), [], Verdict(PASSES), 1),
        (Verdict(ABSENT), [], Verdict(ABSENT), 0),
    ],
)
@pytest.mark.parametrize("record", [False, True])
def test_the_exit_code_says_whether_the_board_holds(verdict, listed, before, code, record, monkeypatch):
    cells = {CELL[0]: {CELL[1]: {CELL[2]: [before.kind, before.text]}}}
    assert _exit_code({CELL: verdict}, {}, listed, {"cells": cells}, record, monkeypatch) == code


def test_an_engine_that_does_not_start_makes_the_command_fail(monkeypatch):
    assert _exit_code({}, {"duckdb": "no such package"}, [], None, False, monkeypatch) == 1
    assert _exit_code({}, {}, [], None, False, monkeypatch) == 0


def _exit_code(cells, absent, listed, before, record, monkeypatch):
    # The command's module is not imported by its name, as this would put the folder of tests on the path once more.
    monkeypatch.setattr(sys, "path", list(sys.path))
    import typer
    from conformance import __main__ as command

    class Run:
        def __init__(self, *_):
            self.cells, self.versions, self.absent = cells, {}, absent

        def run(self):
            pass

    monkeypatch.setattr(command, "Run", Run)
    monkeypatch.setattr(command, "known", lambda: listed)
    monkeypatch.setattr(command, "recorded", lambda: before)
    monkeypatch.setattr(command, "save", lambda *_: None)
    app = typer.Typer()
    app.command()(command.main)
    return CliRunner().invoke(app, ["--engine", "duckdb", *(["--record"] if record else [])]).exit_code


def test_a_value_of_another_type_is_another_value():
    """In Python, 1 is True: a reader that shows booleans as numbers must not pass."""
    expected = {"columns": ["a"], "rows": [[True], [{"x": 1, "y": False}]]}
    assert of_rows(expected, {"columns": ["a"], "rows": [[True], [{"y": False, "x": 1}]]}) == Verdict(PASSES)
    for rows in ([[1], [{"x": 1, "y": False}]], [[True], [{"x": 1, "y": 0}]], [[True], [{"x": True, "y": False}]]):
        assert of_rows(expected, {"columns": ["a"], "rows": rows}).kind == FAILS


def test_the_day_of_an_engine_is_that_of_all_of_its_cells(tmp_path):
    """A run of a part does not date what an earlier run has left."""
    path = tmp_path / "board.json"

    def engines(cases, when, version):
        cells = {(THEY_READ, "duckdb", case): Verdict(PASSES) for case in cases}
        page.save(cells, {"duckdb": version, OURS: "Spark"}, when, "", path)
        return {
            name: (run["version"], run["when"]) for name, run in json.loads(path.read_text("utf-8"))["engines"].items()
        }

    first, second = list(CASES)[:2]
    assert engines([first, second], "d1", "1.0")["duckdb"] == ("1.0", "d1")
    assert engines([second], "d2", "1.1") == {"duckdb": ("1.0 to 1.1", "d1 to d2"), OURS: ("Spark", "d1 to d2")}
    assert engines([second], "d3", "1.1")["duckdb"] == ("1.0 to 1.1", "d1 to d3")
    assert engines([first, second], "d4", "1.2") == {"duckdb": ("1.2", "d4"), OURS: ("Spark", "d4")}
