"""The small model of the commit protocol is about this code: its steps and its invariants are there, by the same names.

The search itself needs Spin and a C compiler, so only the long run has it: all bounds of a minute or two hold, and each
fault of the model is found.
"""

from __future__ import annotations

import importlib
import re
from functools import reduce

import pytest
import typer
from model import __main__ as command
from model.checker import Result, check
from model.parts import PARTS, Part
from typer.testing import CliRunner

#: What a trace shows beside steps of the code.
OTHERS = {"another engine", "the store", "time"}
MUTATIONS = [pytest.param(part, each, id=f"{part.name}, {each.name}") for part in PARTS for each in part.mutations]
RUNS = [
    pytest.param(part, run, id=f"{part.name}, {run.name}") for part in PARTS for run in part.runs if run.kind != "long"
]


def documented(part: Part) -> set[str]:
    """The names of the invariants in the docstring of the module that is responsible for them."""
    text = importlib.import_module(part.documented).__doc__ or ""
    listed = text.partition("**Invariants")[2].partition("\n\n- ")[2].partition("\n\n")[0]
    return {name for each in listed.split("\n- ") for name in re.findall(r"\*([^*]+)\*(?=[,:.]|\s)", each)}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_model_and_the_code_name_the_same_invariants(part):
    assert documented(part) == set(part.invariants)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_step_names_a_function_of_the_code(part):
    assert set(part.steps) - set(part.functions) <= OTHERS
    for named in part.functions:
        module, _, function = named.partition(":")
        assert callable(reduce(getattr, function.split("."), importlib.import_module(f"headwater.{module}"))), named


def test_the_steps_of_the_commit_loop_are_modelled():
    named = {function for part in PARTS for function in part.functions}
    assert named >= {
        "log.snapshot:load_snapshot",
        "transaction.committers:StoreCommitter.commit",
        "transaction.committers:StoreCommitter._look_for",
        "transaction.commit_loop:CommitLoop.follow_winners",
        "transaction.row_level:Marks.after",
        "transaction.moved_rows:follow",
        "transaction.moved_rows:Copies.after",
        "transaction.row_ids:RowIds.assign",
        "log.groups:decide",
        "groups.undoing:undo",
        "log.cleanup:_clean_up",
        "log.vacuum:needed_files",
    }


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_mutation_is_in_the_model_and_breaks_one_of_its_invariants(part):
    assert {each.constant for each in part.mutations} == set(re.findall(r"\bMUTATE_\w+", part.text))
    assert {each.breaks for each in part.mutations} <= set(part.invariants)
    bounds = {name for each in (*part.runs, *part.mutations) for name in each.bounds}
    assert [name for name in bounds if not re.search(rf"\b{name}\b", part.text)] == []


def test_a_fault_of_no_such_name_is_an_error(monkeypatch):
    """Even beside a fault that is found: what is left out must not pass for found."""
    monkeypatch.setattr(command, "check", lambda part, bounds, mutation: Result(1, 1, 1, 0.0, "conflicts are found"))
    app = typer.Typer()
    app.command()(command.main)
    asked = ["--part", "rows", "--mutate", "same_row"]
    assert CliRunner().invoke(app, asked).exit_code == 0
    assert CliRunner().invoke(app, [*asked, "--mutate", "same_rwo"]).exit_code == 2
    assert CliRunner().invoke(app, [*asked, "--mutate", "no_check"]).exit_code == 1, "it breaks another invariant"


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("part", "run"), RUNS)
def test_every_invariant_holds_in_all_states(part, run):
    found = check(part, run.bounds)
    assert (found.broken, found.trace) == (None, ())
    assert found.states > 10_000


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("part", "mutation"), MUTATIONS)
def test_each_mutation_is_found(part, mutation):
    found = check(part, mutation.bounds, mutation.constant)
    assert found.broken == mutation.breaks
    assert found.trace
