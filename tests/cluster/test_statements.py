"""Random statements on executors in other processes, while tasks are killed, overtaken and run again: the rows, the
results, the change data and the log's counts are those of the model.

The same one every time; ``HEADWATER_TEST_EXAMPLES`` asks for another number, drawn anew.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as drawing
from hypothesis import strategies as st

from support.dml.checking import Run
from support.dml.exactness import Held, check_exact, strays
from support.dml.expressions import Term
from support.dml.model import Delete, Merge, Statement, Update
from support.dml.strategies import scripts

#: An example takes several seconds.
EXAMPLES = max(int(os.environ.get("HEADWATER_TEST_EXAMPLES", "8")) // 8, 1)
drawn = drawing(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="HEADWATER_TEST_EXAMPLES" not in os.environ,
    database=None,
    print_blob=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
_numbers = itertools.count()


def held(term: Term | None) -> Term | None:
    return None if term is None else Term(f"held_if({term.sql})", term.value)


def holding(statement: Statement) -> Statement:
    """The same statement, which holds a task where it looks at a condition."""
    if isinstance(statement, (Update, Delete)) and "SELECT" not in (statement.condition or statement).__repr__():
        return replace(statement, condition=held(statement.condition))
    if isinstance(statement, Merge):
        clauses = tuple(replace(clause, condition=held(clause.condition)) for clause in statement.clauses)
        return replace(statement, clauses=clauses)
    return statement


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.random
@pytest.mark.timeout(3600)
def test_statements_mean_what_the_model_says(cluster: Any, tmp_path: Path) -> None:
    @drawn
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        script = data.draw(scripts(most=3))
        script = replace(script, statements=tuple(map(holding, script.statements)))
        faults = iter(data.draw(st.lists(st.sampled_from(["killed", "overtaken", "none"]), min_size=3, max_size=3)))
        lost = False

        def befall(answer: Any) -> None:
            nonlocal lost
            fault = next(faults)
            worker = inside(answer) if fault != "none" else None
            if worker is not None and fault == "killed":
                cluster.kill(cluster.executor_of(worker))
                lost = True
            elif worker is not None:
                cluster.wait_for(lambda: answer.is_there, "the second attempt to be done")

        cluster.both_executors()
        run = Run(Held(cluster, befall), script, tmp_path / f"t{next(_numbers)}")
        run.set_up(script.setup(run.path))
        for statement in script.statements:
            with cluster.latch() as inside:
                run.step(statement)
        check_exact(run)
        if not lost:
            cluster.wait_for(lambda: not strays(run.path), "files of slower attempts to be deleted")

    holds()


def test_writes_leave_few_files(cluster: Any, tmp_path: Path) -> None:
    """Optimized writes gather rows of both executors, and auto-compaction runs its jobs on them."""
    table = f"delta.`{tmp_path}/t`"
    settings = {"autoCompact.enabled": "true", "autoCompact.minNumFiles": "3", "optimizeWrite.enabled": "true"}
    for name, value in settings.items():
        cluster.sql(f"SET spark.databricks.delta.{name} = {value}")
    cluster.sql(f"CREATE TABLE {table} (id BIGINT, p INT) USING delta PARTITIONED BY (p)")
    files = f"SELECT p, count(DISTINCT _metadata.file_path) FROM {table} GROUP BY p ORDER BY p"
    for count in (1, 2):
        cluster.sql(f"INSERT INTO {table} SELECT id, id % 2 FROM range(0, 200000, 1, 6)")
        assert cluster.sql(files) == [[0, count], [1, count]]
    cluster.sql(f"INSERT INTO {table} SELECT id, 0 FROM range(0, 10, 1, 6)")
    cluster.wait_for(lambda: cluster.sql(files) == [[0, 1], [1, 2]], "a compaction")
    assert cluster.sql(f"SELECT count(*), sum(id) FROM {table}") == [[400010, 200000 * 199999 + 45]]
    for name in settings:
        cluster.sql(f"RESET spark.databricks.delta.{name}")
