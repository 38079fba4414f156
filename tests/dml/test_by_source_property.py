"""Random MERGEs with WHEN NOT MATCHED BY SOURCE: what they do is what the model says, though every file that neither
the target's part of ON nor a clause can select is unreadable meanwhile, and no commit has one of these.

Which files those are is worked out here from partition values and statistics in the log.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import settings as drawing
from hypothesis import strategies as st

from support.dml import expressions as e
from support.dml.checking import Run
from support.dml.engines import Headwater
from support.dml.expressions import Term
from support.dml.model import SOURCE, TARGET, Assignment, Clause, Delete, Merge, Source, Table, values_sql
from support.dml.scripts import Script
from support.drawing import STEADY

USUAL = 3
EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", USUAL))
drawn = drawing(STEADY, max_examples=EXAMPLES, derandomize=EXAMPLES <= USUAL, print_blob=True)
COLUMNS = {"k": "int", "v": "int", "p": "int"}
MATCHED, NEW, BY_SOURCE = "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"
_numbers = itertools.count()

# -- Conditions of which it is known what they select of a file --------------------------------------------------------


@dataclass(frozen=True)
class File:
    """A live file: of each column the least and greatest value, None if it has none or it is not known, and whether it
    may have nulls.
    """

    path: str
    bounds: dict[str, tuple[int | None, int | None]]
    nulls: dict[str, bool]


@dataclass(frozen=True)
class Atom:
    """A column compared with a constant; ``is null`` and ``is not null`` have none."""

    column: str
    operator: str
    constant: int | None

    @property
    def term(self) -> Term:
        column = e.column(TARGET, self.column)
        if self.operator.startswith("is"):
            return e.is_null(column, negate="not" in self.operator)
        return e.compare(self.operator, column, e.literal("int", self.constant))

    def may_select(self, file: File) -> bool:
        (low, high), c = file.bounds[self.column], self.constant
        if self.operator == "is null":
            return file.nulls[self.column]
        if low is None or high is None:
            return False
        if self.operator == "is not null":
            return True
        if c is None:
            return False
        return {"=": low <= c <= high, "<": low < c, "<=": low <= c, ">": high > c, ">=": high >= c}[self.operator]


@dataclass(frozen=True)
class Condition:
    """Alternatives of atoms, all of which hold, and then what pruning knows nothing of."""

    parts: Sequence[Sequence[Atom]]
    opaque: Sequence[Term] = ()

    @property
    def terms(self) -> list[Term]:
        return [e.any_of(*(atom.term for atom in part)) for part in self.parts] + list(self.opaque)

    @property
    def term(self) -> Term | None:
        return e.all_of(*self.terms) if self.terms else None

    def may_select(self, file: File) -> bool:
        return all(any(atom.may_select(file) for atom in part) for part in self.parts)


@dataclass(frozen=True)
class LimitedMerge(Merge):
    """``target``: the part of ON that needs no source; ``conditions``: of the clauses for rows without a match."""

    target: Condition = Condition(())
    conditions: tuple[Condition, ...] = ()

    def may_concern(self, file: File) -> bool:
        matters = any(clause.when != BY_SOURCE for clause in self.clauses)
        on = self.target.may_select(file) if matters else False
        return on or any(condition.may_select(file) for condition in self.conditions)


CONSTANTS = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, None])


@st.composite
def atoms(draw: Any) -> Atom:
    operator = draw(st.sampled_from(["=", "=", "=", "<", "<=", ">", ">=", "is null", "is not null"]))
    constant = None if operator.startswith("is") else draw(CONSTANTS)
    return Atom(draw(st.sampled_from(["p", "p", "k", "v"])), operator, constant)


@st.composite
def opaque(draw: Any) -> Term:
    k, v, p = (e.column(TARGET, name) for name in "kvp")
    two, three = e.literal("int", 2), e.literal("int", 3)
    return draw(
        st.sampled_from(
            [
                e.compare("=", e.arithmetic("%", k, two), e.literal("int", 0)),
                e.compare("<", k, e.arithmetic("+", v, three)),
                e.compare("<=>", e.arithmetic("-", p, v), e.literal("int", 1)),
                e.negated(e.compare("=", k, v)),
            ]
        )
    )


@st.composite
def conditions(draw: Any, least: int = 1) -> Condition:
    parts = draw(st.lists(st.lists(atoms(), min_size=1, max_size=2), min_size=least, max_size=2))
    return Condition(parts, draw(st.lists(opaque(), max_size=1)))


@st.composite
def merges(draw: Any) -> LimitedMerge:
    rows = st.fixed_dictionaries({"k": CONSTANTS, "v": st.integers(10, 20), "p": st.sampled_from([0, 1, 2, 3, None])})
    source = tuple(draw(st.lists(rows, max_size=4, unique_by=lambda row: row["k"])))
    t_k, s_k, t_p, s_p = (e.column(alias, name) for name in "kp" for alias in (TARGET, SOURCE))
    keys = draw(
        st.sampled_from(
            [
                [e.compare("=", t_k, s_k)],
                [e.compare("=", t_k, s_k)],
                [e.compare("=", t_k, s_k), e.compare("=", t_p, s_p)],
                [e.compare("=", t_k, e.arithmetic("+", s_k, e.literal("int", 1)))],
                [e.any_of(e.compare("=", t_k, s_k), e.compare("=", t_p, e.literal("int", 0)))],
                [e.compare("<=>", t_k, s_k)],
                [],
            ]
        )
    )
    target = draw(conditions(0 if keys else 1))
    clauses = []
    if draw(st.booleans()):
        condition = draw(st.none() | st.just(e.compare(">", e.column(SOURCE, "v"), e.literal("int", 14))))
        action = draw(st.sampled_from(["UPDATE", "UPDATE", "DELETE"]))
        clauses.append(Clause(MATCHED, action, condition))
    if draw(st.booleans()):
        clauses.append(Clause(NEW, "INSERT"))
    found = [draw(conditions()) for _ in range(draw(st.integers(1, 2)))]
    if draw(st.integers(0, 9)) == 0:
        found.append(draw(st.just(Condition(())) | opaque().map(lambda term: Condition((), [term]))))
    for condition in found:
        value = e.arithmetic("+", e.column(TARGET, "v"), e.literal("int", 100))
        move = Assignment("p", draw(CONSTANTS.map(lambda value: e.literal("int", value))))
        update = (Assignment("v", value), move) if draw(st.booleans()) else (Assignment("v", value),)
        action, given_values = draw(st.sampled_from([("DELETE", None), ("UPDATE", update)]))
        clauses.append(Clause(BY_SOURCE, action, condition.term, given_values))
    on = e.all_of(*draw(st.permutations([*keys, *target.terms])))
    return LimitedMerge(Source(COLUMNS, source), on, tuple(clauses), target, tuple(found))


@st.composite
def scripts(draw: Any, vectors: bool) -> tuple[Script, int]:
    cells = {"k": CONSTANTS, "v": st.integers(0, 8) | st.none(), "p": st.sampled_from([0, 1, 2, 3, None])}
    rows = tuple(draw(st.lists(st.fixed_dictionaries(cells), min_size=6, max_size=14)))
    deleting = atoms().map(lambda atom: Delete(e.all_of(atom.term, Atom("v", "<", 3).term)))
    statements = draw(st.lists(merges() | merges() | merges() | deleting, min_size=3, max_size=5))
    properties = {
        "delta.enableDeletionVectors": str(vectors).lower(),
        "delta.enableChangeDataFeed": draw(st.sampled_from(["true", "false"])),
        "delta.columnMapping.mode": draw(st.sampled_from(["none", "none", "name"])),
        "delta.enableRowTracking": draw(st.sampled_from(["true", "false"])),
    }
    by = draw(st.sampled_from([("p",), ("p",), ()]))
    script = Script(Table(COLUMNS, by, rows), Table(COLUMNS), tuple(statements), tuple(properties.items()))
    return script, draw(st.sampled_from([0, 0, 2500, 1 << 30]))


# -- The log, and files that cannot be read ----------------------------------------------------------------------------


def actions_of(path: Path, version: int) -> list[dict[str, Any]]:
    text = (path / "_delta_log" / f"{version:020}.json").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def live_files(path: Path, partitioned: bool) -> list[File]:
    live: dict[str, dict[str, Any]] = {}
    physical = {name: name for name in COLUMNS}
    for version in range(len(list((path / "_delta_log").glob("*.json")))):
        for action in actions_of(path, version):
            if "metaData" in action:
                fields = json.loads(action["metaData"]["schemaString"])["fields"]
                named = [(f["name"], f["metadata"].get("delta.columnMapping.physicalName", f["name"])) for f in fields]
                physical = dict(named)
            if "remove" in action:
                live.pop(unquote(action["remove"]["path"]), None)
        live |= {unquote(a["add"]["path"]): a["add"] for a in actions_of(path, version) if "add" in a}
    return [_file(name, add, physical, partitioned) for name, add in live.items()]


def _file(name: str, add: dict[str, Any], physical: dict[str, str], partitioned: bool) -> File:
    stats = json.loads(add["stats"])
    bounds, nulls = {}, {}
    for column, stored in physical.items():
        if column == "p" and partitioned:
            value = add["partitionValues"][stored]
            number = None if value is None else int(value)
            bounds[column], nulls[column] = (number, number), value is None
        else:
            low, high = (stats[kind].get(stored) for kind in ("minValues", "maxValues"))
            bounds[column], nulls[column] = (low, high), stats["nullCount"][stored] > 0
    return File(name, bounds, nulls)


@dataclass
class Guarded:
    """Runs statements; the files that the next MERGE cannot concern are unreadable meanwhile."""

    engine: Headwater
    path: Path
    script: Script
    merge: LimitedMerge | None = None
    #: How many files were kept from statements, and how many were left to them.
    hidden: int = 0
    shown: int = 0
    _outside: set[str] = field(default_factory=set)

    def sql(self, text: str) -> list[Any]:
        if self.merge is None or not text.startswith("MERGE"):
            return self.engine.sql(text)
        files = live_files(self.path, bool(self.script.table.partitioned_by))
        self._outside = {file.path for file in files if not self.merge.may_concern(file)}
        self.hidden += len(self._outside)
        self.shown += len(files) - len(self._outside)
        with unreadable(self.path, self._outside):
            return self.engine.sql(text)

    def check_commit(self, before: int, after: int) -> None:
        """No commit has one of the files that were unreadable."""
        for version in range(before + 1, after + 1):
            touched = [a.get("add") or a.get("remove") for a in actions_of(self.path, version)]
            assert not self._outside & {unquote(file["path"]) for file in touched if file}


@contextmanager
def unreadable(folder: Path, files: set[str]) -> Iterator[None]:
    kept = {file: (folder / file).read_bytes() for file in files}
    for file in files:
        (folder / file).write_bytes(b"")
    try:
        yield
    finally:
        for file, content in kept.items():
            (folder / file).write_bytes(content)


def setup(script: Script, path: Path, small_target: int) -> list[str]:
    """Four files, or some for each partition, whose keys do not overlap."""
    name = f"delta.`{path}`"
    by = "PARTITIONED BY (p)" if script.table.partitioned_by else ""
    told = ", ".join(f"'{key}' = '{value}'" for key, value in script.properties)
    rows = values_sql(COLUMNS, script.table.rows)
    return [
        f"SET spark.headwater.merge.smallTargetBytes = {small_target}",
        f"CREATE TABLE {name} (k INT, v INT, p INT) USING delta {by} TBLPROPERTIES ({told})",
        f"INSERT INTO {name} SELECT /*+ REPARTITION_BY_RANGE(4, k) */ * FROM ({rows}) AS r(k, v, p)",
    ]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("vectors", [False, True], ids=["copy_on_write", "deletion_vectors"])
def test_files_that_cannot_be_concerned_are_not_needed(spark: Any, tmp_path: Path, vectors: bool) -> None:
    seen = []

    @drawn
    @given(scripts(vectors))
    def holds(drawn_script: tuple[Script, int]) -> None:
        script, small_target = drawn_script
        path = tmp_path / f"t{next(_numbers)}"
        engine = Guarded(Headwater(spark), path, script)
        run = Run(engine, script, path)
        for text in setup(script, path, small_target):
            run.done.append(text)
            engine.sql(text)
        run.compare_rows()
        for statement in script.statements:
            engine.merge = statement if isinstance(statement, LimitedMerge) else None
            before = len(list((path / "_delta_log").glob("*.json"))) - 1
            run.step(statement)
            if engine.merge is not None:
                engine.check_commit(before, len(list((path / "_delta_log").glob("*.json"))) - 1)
        if script.has_change_data:
            run.compare_changes()
        seen.append((engine.hidden, engine.shown))

    holds()
    # Most files can be left out in some statements, and some are concerned in most.
    assert sum(hidden for hidden, _ in seen) > len(seen)
    assert sum(shown for _, shown in seen) > len(seen)
