"""A task of a DELETE, UPDATE or MERGE that fails: the error is the user's own, and nothing is left of the statement."""

from __future__ import annotations

import pytest

from support.dml_table import Table

pytestmark = pytest.mark.covering("file")

STATEMENTS = {
    "in a condition": "DELETE FROM {t} WHERE fails_late(id) > 0",
    "in a value": "UPDATE {t} SET v = fails_late(id)",
    "in a value, of one file": "UPDATE {t} SET v = fails_late(id) WHERE id > 2",
    "in a merge's condition": "MERGE INTO {t} t USING six s ON t.id = s.id AND fails_late(s.id + t.id - 3) > 0 "
    "WHEN MATCHED THEN UPDATE SET v = 1",
    "in a merge's value": "MERGE INTO {t} t USING nine s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 1 "
    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, fails_late(s.id - 3))",
    "in a source": "MERGE INTO {t} t USING (SELECT fails_late(id) AS id FROM range(6)) s ON t.id = s.id "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 1",
}


#: Of each place where a task computes it one.
IN_BRIEF = {"in a condition", "in a value", "in a merge's value", "in a source"}


@pytest.mark.covering
@pytest.mark.parametrize(
    "where", [pytest.param(w, marks=[] if w in IN_BRIEF else pytest.mark.soak) for w in STATEMENTS]
)
@pytest.mark.parametrize("vectors", [False, True], ids=["copy", "vectors"])
def test_function_of_the_user_fails(spark, tmp_path, vectors, where):
    def fails_late(x):
        if x == 5:
            raise ValueError("five is right out")
        return x

    spark.udf.register("fails_late", fails_late, "bigint")
    spark.range(9).createOrReplaceTempView("nine")
    spark.range(6).createOrReplaceTempView("six")
    rows = "SELECT id, 0 FROM range(0, 6, 1, 3)"
    table = Table(spark, tmp_path / "t", "id BIGINT, v BIGINT", rows, vectors=vectors, changes=True)
    before = table.state
    with pytest.raises(Exception, match="five is right out") as caught:
        table.run(STATEMENTS[where])
    assert "headwater/" not in str(caught.value)
    assert table.comes_to(before)
    assert table.run("UPDATE {t} SET v = 1 WHERE id < 2") == [(2,)]


@pytest.mark.parametrize("vectors", [False, True], ids=["copy", "vectors"])
def test_arithmetic_fails_in_one_task_of_several(spark, tmp_path, fails, vectors):
    rows = "SELECT id, 0 FROM range(0, 6, 1, 3)"
    table = Table(spark, tmp_path / "t", "id BIGINT, v BIGINT", rows, vectors=vectors)
    before = table.state
    spark.range(6).createOrReplaceTempView("six")
    for statement in (
        "UPDATE {t} SET v = 1 DIV (id - 5)",
        "DELETE FROM {t} WHERE 1 DIV (id - 5) = 0",
        "MERGE INTO {t} t USING six s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 1 DIV (s.id - 5)",
    ):
        with fails("DIVIDE_BY_ZERO", state="22012"):
            table.run(statement)
        assert table.comes_to(before)
