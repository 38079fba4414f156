"""Statements whose tasks are killed with their executor, are overtaken by a second attempt, or are run again as what
another stage had made for them is gone: rows, vectors, change data and counts are those of an undisturbed run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.dml.checking import Run
from support.dml.exactness import Held, check_exact, check_metrics, strays
from support.dml.expressions import Term, column, compare, literal
from support.dml.model import SOURCE, TARGET, Assignment, Clause, Delete, Merge, Source, Statement, Table, Update
from support.dml.scripts import Script

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
COLUMNS = {"k": "int", "v": "int"}
ROWS = tuple({"k": k, "v": k * 10} for k in range(24))
SOURCE_ROWS = tuple({"k": k, "v": -k} for k in range(1, 40, 3))


def held(term: Term) -> Term:
    return Term(f"CAST(held({term.sql}) AS INT)", term.value)


def held_if(term: Term) -> Term:
    return Term(f"held_if({term.sql})", term.value)


def number(value: int) -> Term:
    return literal("int", value)


T_K, T_V, S_K, S_V = column(TARGET, "k"), column(TARGET, "v"), column(SOURCE, "k"), column(SOURCE, "v")
OTHERS = Source(COLUMNS, SOURCE_ROWS, named=True)
ON = compare("=", T_K, S_K)
ODD = compare(">", T_V, number(60))
#: A task of each is held in the first stage that reads the table, in the one that writes rows, or in one of the source.
STATEMENTS: dict[str, Statement] = {
    "delete": Delete(held_if(ODD)),
    "update": Update((Assignment("v", held(T_K)),), ODD),
    "merge, held where it writes": Merge(
        OTHERS,
        ON,
        (
            Clause("MATCHED", "DELETE", compare("=", T_K, number(4))),
            Clause("MATCHED", "UPDATE", None, (Assignment("v", held(S_V)),)),
            Clause("NOT MATCHED", "INSERT"),
        ),
    ),
    "merge, held where it inserts": Merge(
        OTHERS,
        ON,
        (
            Clause("MATCHED", "UPDATE", None, (Assignment("v", S_V),)),
            Clause("NOT MATCHED", "INSERT", None, (Assignment("k", S_K), Assignment("v", held(S_V)))),
            Clause("NOT MATCHED BY SOURCE", "DELETE", compare(">", T_K, number(20))),
        ),
    ),
}


def befalls_killed(cluster: Any, inside: Any) -> Any:
    def befall(answer: Any) -> None:
        worker = inside(answer)
        assert worker is not None, "no task was held"
        cluster.kill(cluster.executor_of(worker))

    return befall


def befalls_overtaken(cluster: Any, inside: Any) -> Any:
    def befall(answer: Any) -> None:
        assert inside(answer) is not None, "no task was held"
        cluster.wait_for(lambda: answer.is_there, "the second attempt to be done")

    return befall


BEFALLS = {"killed": befalls_killed, "overtaken": befalls_overtaken}


#: Each statement with one of the faults, and all the rest in a long run. Only MERGE looks at how large the table is.
def in_short_run(name: str, fault: str, vectors: bool, large: bool) -> bool:
    if (fault == "killed") != (name in ("delete", "merge, held where it writes")):
        return False
    if "merge" in name:
        return vectors == large == (fault == "killed")
    return vectors == (name == "update")


CASES = [
    pytest.param(
        name, fault, vectors, large,
        id=f"{name}, {fault}, {'vectors' if vectors else 'copies'}{', large' if large else ''}",
        marks=[] if in_short_run(name, fault, vectors, large) else [pytest.mark.soak],
    )
    for name in STATEMENTS for fault in BEFALLS for vectors in (False, True) for large in (False, True)
    if "merge" in name or not large
]  # fmt: skip


@pytest.mark.covering
@pytest.mark.parametrize(("name", "fault", "vectors", "large"), CASES)
def test_one_statement(cluster: Any, table: str, name: str, fault: str, vectors: bool, large: bool) -> None:
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": str(vectors).lower()}
    script = Script(
        Table(COLUMNS, (), ROWS), Table(COLUMNS, (), SOURCE_ROWS), (STATEMENTS[name],), tuple(properties.items()),
        files=3, others_stored=True, as_if_large=large,
    )  # fmt: skip
    cluster.both_executors()
    before = cluster.attempts()
    with cluster.latch() as inside:
        run = Run(Held(cluster, BEFALLS[fault](cluster, inside)), script, Path(table))
        run.set_up(script.setup(run.path))
        shape = run.expected
        outcome = run.step(script.statements[0])
    check_exact(run)
    check_metrics(run, script.statements[0], outcome, shape)
    if fault == "overtaken":
        cluster.wait_for(lambda: not strays(run.path), "the slower attempt's files to be deleted")
    kind = "failed" if fault == "killed" else "speculative"
    cluster.wait_for(lambda: cluster.attempts()[kind] > before[kind], "the fault to be in Spark's event log")
