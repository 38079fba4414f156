"""A catalog's server that fails as it is asked to ratify a commit, through Spark: the outcome is what is said of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.managed_tables import TOKEN
from support.unity_server import UnityModel, is_commit, serving

SETTING = "spark.sql.catalog.unity"
FAILED, UNKNOWN = "HEADWATER_CATALOG_FAILED", "HEADWATER_CATALOG_OUTCOME_UNKNOWN"
#: More of them than a commit is tried.
MANY = 30

START = [(1, "a"), (2, "b"), (3, "c")]
#: Statements, and the rows after each.
STATEMENTS: dict[str, tuple[str, list[Any]]] = {
    "insert": ("INSERT INTO unity.s.t VALUES (4, 'd')", [*START, (4, "d")]),
    "update": ("UPDATE unity.s.t SET v = 'x' WHERE id = 1", [(1, "x"), *START[1:]]),
    "delete": ("DELETE FROM unity.s.t WHERE id = 1", START[1:]),
    "merge": (
        "MERGE INTO unity.s.t t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'x'",
        [(1, "x"), *START[1:]],
    ),
    "add column": ("ALTER TABLE unity.s.t ADD COLUMN w INT", [(*row, None) for row in START]),
    "set property": ("ALTER TABLE unity.s.t SET TBLPROPERTIES ('team' = 'a')", START),
    "restore": ("RESTORE TABLE unity.s.t TO VERSION AS OF 0", []),
    "replace": ("CREATE OR REPLACE TABLE unity.s.t AS SELECT 7 AS id", [(7,)]),
    "create": ("CREATE TABLE unity.s.n (id INT)", []),
    "create as": ("CREATE TABLE unity.s.n AS SELECT 7 AS id", [(7,)]),
}
#: Faults, and the condition of the error where the statement fails.
FAULTS: dict[str, str | None] = {
    "403": FAILED,
    "409": None,
    "429": None,
    "500": None,
    "done-500": None,
    "lost": None,
    "cut": None,
    "nonsense": None,
    "slow": None,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[tuple[UnityModel, str]]:
    model = UnityModel(str(tmp_path_factory.mktemp("unity")), TOKEN, catalog="unity")
    with serving(model) as uri:
        yield model, uri


@pytest.fixture
def model(server, spark, settings) -> Iterator[UnityModel]:
    """The server, with a table of three rows at version 1."""
    found, uri = server
    found.schemas["s"].clear()
    found.faults, found.meets_fault = [], is_commit
    given = {SETTING: "headwater.spark.HeadwaterUnityCatalog", f"{SETTING}.uri": uri, f"{SETTING}.token": TOKEN}
    with settings(given):
        spark.sql("CREATE TABLE unity.s.t (id INT, v STRING)")
        spark.sql("INSERT INTO unity.s.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        yield found


class Story:
    """A statement that meets with a fault, and what has become of it."""

    def __init__(self, name: str, model: UnityModel, rows: Callable[[str], list[Any]]) -> None:
        self.text, self.after = STATEMENTS[name]
        self.table = "n" if name.startswith("create") else "t"
        self.before = [] if self.table == "n" else START
        self.first = 0 if self.table == "n" else 2
        self.model, self._rows = model, rows

    @property
    def latest(self) -> int:
        found = self.model.schemas["s"].get(self.table)
        return -1 if found is None else found.latest

    def check(self, done: bool, condition: str | None = None) -> None:
        """It was done once, or not at all; nothing is half-written; and the next statement works.

        :param condition: of its error. Where the outcome is not known, the server may ratify the commit yet.
        """
        assert self.latest == (self.first if done else self.first - 1)
        if self.latest >= 0:
            assert sorted(self._rows(f"SELECT * FROM unity.s.{self.table}")) == sorted(
                self.after if done else self.before
            )
            self._check_log(self.latest + (condition == UNKNOWN))
            self._rows(f"DELETE FROM unity.s.{self.table} WHERE id = 3")
            assert 3 not in [row[0] for row in self._rows(f"SELECT id FROM unity.s.{self.table}")]
        else:
            assert self._rows(f"SHOW TABLES IN unity.s LIKE '{self.table}'") == []
            self._rows(self.text)
            assert self._rows(f"SELECT * FROM unity.s.{self.table}") == self.after

    def _check_log(self, last: int) -> None:
        """Each version is the commit that the server has ratified, and no other commit is left beside it, up to the
        last one that there may be.
        """
        table = self.model.schemas["s"][self.table]
        log = Path(table.location) / "_delta_log"
        versions = list(range(1, self.latest + 1))
        staged = {file.name for file in (log / "_staged_commits").glob("*.json")}
        found = {table.history[version] for version in versions}
        assert {name for name in staged - found if int(name[:20]) != last or last == self.latest} == set()
        for version in versions:
            ratified = log / "_staged_commits" / table.history[version]
            published = log / f"{version:020}.json"
            if ratified.exists() and published.exists():
                assert ratified.read_bytes() == published.read_bytes()
            lines = (ratified if ratified.exists() else published).read_text().splitlines()
            assert all(json.loads(line) for line in lines)


@pytest.mark.covering
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", STATEMENTS)
def test_one_fault(name, fault, model, spark, rows, fails):
    story = Story(name, model, rows)
    model.faults = [fault]
    condition = FAULTS[fault]
    if condition is None:
        spark.sql(story.text)
    else:
        with fails(condition, f"status {fault}", "unchanged"):
            spark.sql(story.text)
    assert not model.faults
    story.check(done=condition is None)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["insert", "update", "create as"])
@pytest.mark.parametrize(
    ("fault", "condition"),
    [("429", FAILED), ("409", UNKNOWN), ("500", UNKNOWN), ("lost", UNKNOWN), ("cut", None), ("nonsense", None)],
)
def test_a_fault_that_lasts(name, fault, condition, model, spark, rows, fails):
    story = Story(name, model, rows)
    model.faults = [fault] * MANY
    if condition is None:
        spark.sql(story.text)
    else:
        with fails(condition):
            spark.sql(story.text)
    model.faults = []
    story.check(condition is None, condition)


@pytest.mark.parametrize("fault", ["500", "429", "nonsense", "cut"])
def test_a_server_that_does_not_say_what_a_table_is(fault, model, spark, rows, fails):
    model.meets_fault = lambda request: request.method == "GET"
    for text in ("SELECT * FROM unity.s.t", "INSERT INTO unity.s.t VALUES (9, 'z')"):
        model.faults = [fault] * MANY
        with fails(FAILED, "unity.s.t"):
            spark.sql(text).collect()
    model.faults = []
    assert sorted(rows("SELECT * FROM unity.s.t")) == START
    assert model.schemas["s"]["t"].latest == 1


def test_a_server_that_is_away(model, spark, rows, fails, settings):
    with settings({f"{SETTING}.uri": "http://127.0.0.1:1"}), fails(FAILED, "cannot be reached"):
        spark.sql("INSERT INTO unity.s.t VALUES (9, 'z')")
    assert sorted(rows("SELECT * FROM unity.s.t")) == START
