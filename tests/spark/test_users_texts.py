"""Texts of users: what they mean, they mean to Spark alone, wherever they stand; and the history has them whole.

Random conditions with comments, quotes, semicolons and parentheses too many or too few, in every place that takes one.
The judge is Spark, which is given the text alone: either a statement does what the text says there, or it fails as the
text fails there. ``HEADWATER_TEST_EXAMPLES`` asks for another number of texts, drawn anew.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "8"))
SEED = None if "HEADWATER_TEST_EXAMPLES" in os.environ else 5

CONDITIONS = [
    "id > 2",
    "id = 1 or id = 4",
    "name = 'a--b'",
    "name = 'c;d'",
    "name like '%/*%'",
    "id in (1, 2)",
    "`id` < 4",
    "name <> 'it\\'s'",
    'name = "e"',
    "id between 1 and 3",
    "array(id)[0] > 1",
    "hw_expr.`0` = 1",
    "is_written",
    "id / (id - 2) > 0",
]
BEFORE = ["", "", "", "/* c */ ", "-- c\n", "(", "true) OR (", "\n\t", "é ", "/*+ BROADCAST(t) */ ", "not ", "'"]
AFTER = [
    "",
    " -- positive",
    " -- goes on \\",
    " -- ) or (true",
    " /* c */",
    " /* a /* b */ c */",
    " /* open",
    " */",
    ";",
    "; DROP TABLE t",
    ")",
    ") or (true",
    " or (true",
    "'",
    "`",
    '"',
    "\n",
    " -- c\nand id < 4",
    " AS x",
    " WHERE true",
    " union select true",
    " {{x}} $1 %s <values>",
    "\u2028",
]
ROWS = [(0, "a--b"), (1, "c;d"), (2, "it's"), (3, "/*"), (4, "e")]


@pytest.fixture
def texts() -> list[str]:
    rng = random.Random(SEED)
    return [rng.choice(BEFORE) + rng.choice(CONDITIONS) + rng.choice(AFTER) for _ in range(EXAMPLES)]


class Judge:
    """What Spark makes of a text over the rows: the ids it is true for, or the error."""

    def __init__(self, spark: Any, text: str) -> None:
        from pyspark.errors import ParseException, PySparkException
        from pyspark.sql import functions as F

        self.ids: list[int] = []
        self.error: PySparkException | None = None
        try:
            frame = spark.createDataFrame(ROWS, "id INT, name STRING").where(F.expr(text))
            self.ids = sorted(row[0] for row in frame.collect())
        except PySparkException as error:
            self.error = error
        self.parses = not isinstance(self.error, ParseException)

    def agrees(self, text: str, error: Any) -> None:
        """An error of a statement is the judge's, and about the text."""
        assert self.error is not None, f"{text!r}: {error}"
        if not self.parses:
            assert error.getCondition() == self.error.getCondition(), text
            shown = str(error).split("== SQL ==\n")
            # Spark marks the place with a line of its own.
            assert "\n".join(line for line in shown[-1].split("\n") if line.strip("-^")) == "\n".join(
                line for line in str(self.error).split("== SQL ==\n")[-1].split("\n") if line.strip("-^")
            ), text


def make(spark: Any, path: Path, rows: bool = True) -> str:
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (id INT, name STRING) USING delta")
    if rows:
        spark.createDataFrame(ROWS, "id INT, name STRING").coalesce(1).write.format("delta").mode("append").save(
            str(path)
        )
    return table


def ids(spark: Any, path: Path) -> list[int]:
    return sorted(row[0] for row in spark.read.format("delta").load(str(path)).collect())


@pytest.mark.spark
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("changes", [pytest.param(False, marks=pytest.mark.soak), True], ids=["plain", "change_feed"])
def test_replace_where(spark: Any, tmp_path: Path, texts: list[str], changes: bool) -> None:
    from pyspark.errors import PySparkException

    path = tmp_path / "t"
    table = make(spark, path)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{str(changes).lower()}')")
    everything = spark.read.format("delta").load(str(path)).schema
    for text in texts:
        judge = Judge(spark, text)
        try:
            nothing = spark.createDataFrame([], everything)
            nothing.write.format("delta").mode("overwrite").option("replaceWhere", text).save(str(path))
        except PySparkException as error:
            judge.agrees(text, error)
            assert ids(spark, path) == [row[0] for row in ROWS], text
        else:
            assert judge.error is None, text
            assert ids(spark, path) == [row[0] for row in ROWS if row[0] not in judge.ids], text
            gone = [row for row in ROWS if row[0] in judge.ids]
            if gone:
                spark.createDataFrame(gone, everything).write.format("delta").mode("append").save(str(path))


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_conditions_of_the_python_interface(spark: Any, tmp_path: Path, texts: list[str]) -> None:
    from pyspark.errors import PySparkException

    from headwater.tables import DeltaTable

    path = tmp_path / "t"
    make(spark, path)
    table = DeltaTable.forPath(spark, str(path))
    source = spark.range(1)
    for number, text in enumerate(texts):
        judge = Judge(spark, text)
        if text.endswith(" AS x"):
            continue  # a name is nothing that a condition of a statement has
        try:
            if number % 2:
                table.update(text, {"name": "name"})
                found = table.history(1).collect()[0]["operationMetrics"].get("numUpdatedRows", "0")
                assert not judge.ids or int(found) == len(judge.ids), text
            else:
                count = f"CASE WHEN {'true'} THEN name END"
                merged = table.merge(source, "false").whenNotMatchedBySourceUpdate(text, {"name": count})
                assert merged.execute().collect()[0][0] == len(judge.ids), text
        except PySparkException as error:
            judge.agrees(text, error)
        else:
            assert judge.error is None, text
        assert ids(spark, path) == [row[0] for row in ROWS], text


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_constraints_and_generated_columns_of_other_writers(spark: Any, tmp_path: Path, texts: list[str]) -> None:
    from pyspark.errors import PySparkException

    for number, text in enumerate(texts):
        judge = Judge(spark, text)
        for kind in ("check", "generated"):
            path = tmp_path / f"{kind}{number}"
            spark.sql(f"CREATE TABLE delta.`{path}` (id INT, name STRING, g BOOLEAN) USING delta")
            path = declare(path, kind, text)
            row = ROWS[number % len(ROWS)]
            value = "" if kind == "generated" else ", true"
            columns = "id, name" if kind == "generated" else "id, name, g"
            escaped = row[1].replace("'", "\\'")
            try:
                spark.sql(f"INSERT INTO delta.`{path}` ({columns}) VALUES ({row[0]}, '{escaped}'{value})")
            except PySparkException as error:
                if error.getCondition() == "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES":
                    assert row[0] not in judge.ids, text
                else:
                    judge.agrees(text, error)
            else:
                found = spark.sql(f"SELECT id, g FROM delta.`{path}`").collect()
                assert [tuple(r)[0] for r in found] == [row[0]], text
                if judge.error is None:
                    assert bool(found[0]["g"]) == (row[0] in judge.ids) or kind == "check", text
                    assert row[0] in judge.ids or kind == "generated", text


def declare(path: Path, kind: str, text: str) -> Path:
    """A table with a constraint or a generated column as another writer would make it, whatever the text."""
    log = path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 1, "minWriterVersion": 4}
        if "metaData" in action and kind == "check":
            action["metaData"]["configuration"] = {"delta.constraints.c": text}
        if "metaData" in action and kind == "generated":
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][2]["metadata"]["delta.generationExpression"] = text
            action["metaData"]["schemaString"] = json.dumps(schema)
    made = path.with_name(path.name + "_of_other")
    (made / "_delta_log").mkdir(parents=True)
    (made / "_delta_log" / log.name).write_text("\n".join(map(json.dumps, actions)) + "\n", encoding="utf-8")
    return made


VALUES = ['a"b', "it's", "back\\slash", "new\nline", "tab\t", "é\u2028", "{}[],:", "\\u0022", '"]', "\x01", "😀"]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_history_has_any_text_as_json(spark: Any, tmp_path: Path, log: Any) -> None:
    from pyspark.sql import functions as F

    rng = random.Random(SEED)
    path = tmp_path / "t"
    odd = 'p"\\,' + rng.choice(["é", "'", "]"])
    table, key = f"delta.`{path}`", "`" + odd + "`"
    properties = "'delta.columnMapping.mode' = 'name', 'a\"b' = 'c\"d'"
    columns = f"id INT, name STRING, {key} STRING"
    spark.sql(f"CREATE TABLE {table} ({columns}) USING delta PARTITIONED BY ({key}) TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'x', 'y'), (2, 'z', 'y')")
    for value in rng.sample(VALUES, 5):
        literal = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        condition = f"name <> {literal} AND {key} <> {literal} AND id <> {rng.randrange(100, 1000)}"
        source = f"(SELECT 1 AS id, {literal} AS name) AS s"
        statements = {
            "UPDATE": f"UPDATE {table} SET id = id WHERE {condition}",
            "MERGE": f"MERGE INTO {table} AS t USING {source} ON t.id = s.id AND t.name <> {literal} "
            f"WHEN MATCHED AND s.name = {literal} THEN UPDATE SET id = s.id "
            f"WHEN NOT MATCHED BY SOURCE AND t.name <> {literal} THEN UPDATE SET name = t.name",
            "DELETE": f"DELETE FROM {table} WHERE name = {literal}",
            "WRITE": f"INSERT INTO {table} REPLACE WHERE name <> {literal} VALUES (1, 'x', 'y'), (2, 'z', 'y')",
        }
        for operation, statement in statements.items():
            spark.sql(statement)
            history = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]
            version = history["version"]
            info = next(action["commitInfo"] for action in log(path, version) if "commitInfo" in action)
            if info["operation"] != operation:
                continue  # nothing was deleted, and so nothing committed
            parameters = info["operationParameters"]
            assert all(isinstance(text, str) for text in parameters.values())
            assert history["operationParameters"] == parameters
            if operation == "WRITE":
                assert json.loads(parameters["partitionBy"]) == [odd]
                F.expr(parameters["predicate"])
                continue
            (predicate,) = json.loads(parameters["predicate"])
            F.expr(predicate)
            for clause in (c for n, p in parameters.items() if n.endswith("Predicates") for c in json.loads(p)):
                F.expr(clause.get("predicate", "true"))
    created = next(action["commitInfo"] for action in log(path, 0) if "commitInfo" in action)["operationParameters"]
    assert json.loads(created["partitionBy"]) == [odd]
    assert isinstance(json.loads(created["properties"]), dict)
    spark.sql(f"UPDATE {table} SET id = id")
    info = next(action["commitInfo"] for action in log(path, version + 1) if "commitInfo" in action)
    assert json.loads(info["operationParameters"]["predicate"]) == []
