"""Errors are Spark errors: every condition, with its state and its text, the same wherever a statement comes from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError, conditions
from headwater.exceptions import CONFLICTS
from support.sparks.faults.sitecustomize import VALUE

pytestmark = [pytest.mark.spark, pytest.mark.covering("file")]

_INTERNALS = re.compile(r"py4j|traceback|\.py\b|File \"|Python", re.IGNORECASE)

#: Statements that reach a handler while Spark parses, analyses or runs them.
_STATEMENTS = ("SELECT * FROM {table}", "INSERT INTO {table} VALUES (1)", "DESCRIBE HISTORY {table}")


def expected(condition: str) -> HeadwaterError:
    """The error the handler raises for a condition."""
    template = "\n".join(conditions()[condition]["message"])  # type: ignore[arg-type]
    return HeadwaterError(condition, dict.fromkeys(re.findall(r"<([A-Za-z][A-Za-z0-9]*)>", template), VALUE))


def assert_for_users(found: dict[str, Any]) -> None:
    """No trace of the bridge or of Python is in an error's text, beside what the condition's own text says."""
    own = expected(found["condition"]).text if found["condition"] in conditions() else ""
    assert not _INTERNALS.search(found["text"].replace(own, "")), found["text"]


# The usual run has each condition in one of the two: what they do to an error does not depend on its condition.
@pytest.mark.parametrize("share", [2, pytest.param(1, marks=pytest.mark.soak)], ids=["half", "all"])
@pytest.mark.parametrize("frontend", ["classic", "connect"])
def test_every_condition(frontend: str, share: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    driver = request.getfixturevalue(frontend)
    names = sorted(conditions())[frontend == "connect" and share - 1 :: share]
    texts = [
        _STATEMENTS[i % len(_STATEMENTS)].format(table=f"delta.`{tmp_path}/raise_{name}`")
        for i, name in enumerate(names)
    ]
    for name, found in zip(names, driver.run("all_sql", texts=texts), strict=True):
        error = expected(name)
        assert "text" in found, f"{name} was not raised"
        assert (found["condition"], found["state"]) == (name, error.sql_state)
        assert found["analysis"]
        assert found["text"].startswith(f"[{name}] {error.text} SQLSTATE: {error.sql_state}"), found["text"]
        assert found["parameters"] == error.parameters
        assert_for_users(found)


@pytest.mark.parametrize("frontend", ["classic", "connect"])
def test_conflicts_are_caught_by_their_class(frontend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    driver = request.getfixturevalue(frontend)
    classes = {kind.__name__: condition for condition, kind in CONFLICTS.items()}
    texts = {name: f"SELECT * FROM delta.`{tmp_path}/raise_{condition}`" for name, condition in classes.items()}
    assert driver.run("catch_conflicts", texts=texts) == {name: [classes[name], True] for name in classes}
    base = dict.fromkeys(["DeltaConcurrentModificationException"], texts["ConcurrentAppendException"])
    assert driver.run("catch_conflicts", texts=base) == {next(iter(base)): ["DELTA_CONCURRENT_APPEND", True]}


def test_every_conflict_has_a_class() -> None:
    conflicts = {name for name, condition in conditions().items() if condition["sqlState"] == "2D521"}
    assert conflicts - {"DELTA_DUPLICATE_ACTIONS_FOUND"} == set(CONFLICTS)


@pytest.mark.soak  # the usual run has an error of ours in the shell in test_cancelling.py
def test_every_condition_in_the_sql_shell(sparks: Any, tmp_path: Path) -> None:
    names = sorted(conditions())
    script = tmp_path / "errors.sql"
    script.write_text("".join(f"SELECT * FROM delta.`{tmp_path}/raise_{name}`;\n" for name in names))
    shell = sparks.shell("spark-sql", ["--hiveconf", "hive.cli.errors.ignore=true", "-f", str(script)])
    shell.process.wait(300)
    for name in names:
        error = expected(name)
        assert f"[{name}] {error.text} SQLSTATE: {error.sql_state}" in shell.log
    assert "Traceback" not in shell.log
    assert "py4j" not in shell.log.lower()


@pytest.mark.parametrize("frontend", ["classic", "connect"])
def test_failures_nobody_foresaw(frontend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    driver = request.getfixturevalue(frontend)
    for name in ("KeyError", "RuntimeError", "MemoryError", "surrogate"):
        for statement in _STATEMENTS:
            found = driver.sql(statement.format(table=f"delta.`{tmp_path}/raise_python_{name}`"))
            assert found["condition"] == "DELTA_INTERNAL_ERROR", found
            assert found["state"] == "XX000"
            assert "the cause" in found["text"] or "a file named ?" in found["text"]
            assert not re.search(r"py4j|traceback|\.py\b|File \"", found["text"], re.IGNORECASE), found["text"]


def test_the_log_names_the_place_and_no_traceback(classic: Any, tmp_path: Path) -> None:
    # PySpark's own bridge is in what Spark logs of other tests' failures.
    before = len(classic.log)
    classic.sql(f"SELECT * FROM delta.`{tmp_path}/raise_python_KeyError`")
    said = classic.log[before:]
    assert re.search(r"ERROR .*'load_table' failed: KeyError: 'the cause' \(.*sitecustomize\.py:\d+\)", said)
    assert "Traceback" not in said
    assert "py4j" not in said.lower()


@pytest.mark.parametrize("frontend", ["classic", "connect"])
def test_errors_of_spark_come_through_as_they_are(
    frontend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    driver = request.getfixturevalue(frontend)
    table = f"delta.`{tmp_path}/t`"
    assert driver.sql(f"CREATE TABLE {table} (a BIGINT) USING delta").get("rows") == []
    for statement, condition, state in (
        (f"INSERT INTO {table} SELECT 1 DIV id FROM range(2)", "DIVIDE_BY_ZERO", "22012"),
        (f"INSERT INTO {table} SELECT CAST(concat('x', id) AS INT) FROM range(2)", "CAST_INVALID_INPUT", "22018"),
        (
            f"CREATE TABLE delta.`{tmp_path}/u` USING delta AS SELECT 1 % id AS a FROM range(2)",
            "REMAINDER_BY_ZERO",
            "22012",
        ),
        (f"INSERT INTO {table} SELECT raise_error('mine')", "USER_RAISED_EXCEPTION", "P0001"),
        (f"INSERT INTO {table} SELECT nosuch FROM range(2)", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"),
    ):
        found = driver.sql(statement)
        assert (found.get("condition"), found.get("state")) == (condition, state), found
        assert_for_users(found)
    assert driver.rows(f"SELECT count(*) FROM {table}") == [[0]]
    assert not (tmp_path / "u").exists() or not list((tmp_path / "u").glob("_delta_log/*.json"))


def test_conditions_have_what_users_need() -> None:
    for name, entry in conditions().items():
        assert re.fullmatch(r"[0-9A-Z]{5}", str(entry["sqlState"])), name
        assert json.dumps(entry["message"]) not in ("[]", '""'), name
