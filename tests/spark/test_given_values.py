"""Every way a text gets its values, in every clause of every statement: each does what a literal there does.

The matrix is made, not listed: a clause is a statement with a hole for the INT value 2, a way is what may stand in the
hole. By default each way meets a clause; the long run has each clause, and all pairs.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

COLUMNS = "id INT, v INT, s STRUCT<a: INT, b: STRING>, p INT"


@dataclass(frozen=True)
class Clause:
    """A statement about the table ``{t}`` with a hole ``{v}``, and ``after``, a query for what it did.

    :param constant: Spark's grammar takes a constant there, so markers but no variables or other expressions.
    """

    text: str
    after: str = "SELECT * FROM {t}"
    constant: bool = False
    shown: Callable[[Any], Any] = lambda row: row


def heading(row: Any) -> str:
    """The first line of an explanation; plans say what Spark folded and what it left to be computed."""
    return str(row.plan).splitlines()[0]


MERGE = "MERGE INTO {t} AS t USING (SELECT * FROM VALUES (1, 7), (2, 8), (9, 9) AS u(id, w)) AS u ON t.id = u.id "
INTO_OTHER = "SELECT * FROM {o}"
CLAUSES = {
    "delete": Clause("DELETE FROM {t} WHERE id = {v}"),
    "delete partition": Clause("DELETE FROM {t} WHERE p = {v} - 1"),
    "delete in": Clause("DELETE FROM {t} WHERE id IN (0, {v})"),
    "delete between": Clause("DELETE FROM {t} WHERE id BETWEEN {v} AND {v} + 1"),
    "delete subquery": Clause("DELETE FROM {t} WHERE id IN (SELECT id + 1 FROM {t} WHERE id < {v})"),
    "update value": Clause("UPDATE {t} SET v = {v} WHERE id = 1"),
    "update value of expression": Clause("UPDATE {t} SET v = CASE WHEN id > {v} THEN {v} ELSE v + {v} END"),
    "update condition": Clause("UPDATE {t} SET v = -1 WHERE id >= {v}"),
    "update alias": Clause("UPDATE {t} AS x SET x.v = x.id + {v} WHERE x.id > {v}"),
    "update field": Clause("UPDATE {t} SET s.a = {v} WHERE s.a = {v}"),
    "update struct": Clause("UPDATE {t} SET s = named_struct('b', 'new', 'a', {v})"),
    "update partition": Clause("UPDATE {t} SET p = {v} WHERE p = {v} - 2"),
    "update subquery": Clause(
        "UPDATE {t} SET v = (SELECT max(id) + {v} FROM {t}) WHERE EXISTS (SELECT 1 WHERE {v} = 2)"
    ),
    "update default": Clause("UPDATE {t} SET v = DEFAULT, p = p + {v} WHERE id = {v}"),
    "merge on": Clause(MERGE + "AND t.id = {v} WHEN MATCHED THEN DELETE"),
    "merge matched": Clause(MERGE + "WHEN MATCHED AND u.w > {v} + 5 THEN DELETE"),
    "merge set": Clause(MERGE + "WHEN MATCHED THEN UPDATE SET v = t.v + u.w * {v}, s.a = {v}"),
    "merge insert if": Clause(MERGE + "WHEN NOT MATCHED AND u.id > {v} THEN INSERT (id) VALUES (u.id)"),
    "merge insert": Clause(MERGE + "WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (u.id, u.w + {v}, {v})"),
    "merge by source if": Clause(MERGE + "WHEN NOT MATCHED BY SOURCE AND t.id > {v} THEN DELETE"),
    "merge by source set": Clause(MERGE + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = {v}"),
    "merge star": Clause(
        "MERGE INTO {t} AS t USING (SELECT id, {v} AS v, NULL AS s, id AS p FROM {t}) AS u ON t.id = u.id "
        "AND t.id > {v} WHEN MATCHED AND t.p < {v} THEN UPDATE SET * WHEN NOT MATCHED AND u.id <> {v} THEN INSERT *"
    ),
    "merge evolving": Clause(
        "MERGE WITH SCHEMA EVOLUTION INTO {t} AS t USING (SELECT {v} AS id, {v} AS more) AS u ON t.id = u.id "
        "WHEN MATCHED AND u.more = {v} THEN UPDATE SET more = u.more + {v} WHEN NOT MATCHED THEN INSERT *"
    ),
    "merge source": Clause(
        "MERGE INTO {t} USING (SELECT id AS i FROM range({v} + 1) WHERE id >= {v} - 1) ON id = i "
        "WHEN MATCHED THEN UPDATE SET v = i"
    ),
    "insert values": Clause("INSERT INTO {t} VALUES ({v}, 1, NULL, {v} + 1)"),
    "insert columns": Clause("INSERT INTO {t} (p, id) VALUES (1, {v}), ({v}, 1)"),
    "insert select": Clause("INSERT INTO {t} SELECT {v}, id, s, p FROM {t} WHERE id > {v}"),
    "insert alias": Clause("INSERT INTO {t} SELECT {v} AS a, a + 1 AS b, named_struct('a', b, 'b', 'x'), a"),
    "insert by name": Clause("INSERT INTO {t} BY NAME SELECT {v} AS p, {v} + 1 AS id"),
    "insert evolving": Clause("INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT {v} AS id, {v} AS more"),
    "insert overwrite": Clause("INSERT OVERWRITE {t} SELECT {v}, {v}, NULL, {v}"),
    "insert partition": Clause("INSERT INTO {t} PARTITION (p = {v}) (id) VALUES (77)", constant=True),
    "overwrite partition": Clause("INSERT OVERWRITE {t} PARTITION (p = {v}) SELECT 77, 7, NULL", constant=True),
    "replace where": Clause("INSERT INTO {t} REPLACE WHERE id = {v} SELECT 2, 55, NULL, 0"),
    "replace where partition": Clause("INSERT INTO {t} REPLACE WHERE p = {v} - 1 SELECT 5, 55, NULL, 1"),
    "replace with": Clause("INSERT INTO {t} REPLACE WHERE id = 2 SELECT {v}, {v}, NULL, {v}"),
    "create as": Clause("CREATE TABLE {o} USING delta AS SELECT {v} AS a, id FROM {t} WHERE id < {v}", INTO_OTHER),
    "replace as": Clause("CREATE OR REPLACE TABLE {o} USING delta AS SELECT {v} AS a", INTO_OTHER),
    "create default": Clause("CREATE TABLE {o} (a INT DEFAULT {v}) USING delta", "DESCRIBE {o}", constant=True),
    "create property": Clause(
        "CREATE TABLE {o} (a INT) USING delta TBLPROPERTIES ('delta.checkpointInterval' = {v})",
        "SHOW TBLPROPERTIES {o} ('delta.checkpointInterval')",
        constant=True,
    ),
    "set property": Clause(
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = {v})",
        "SHOW TBLPROPERTIES {t} ('delta.checkpointInterval')",
        constant=True,
    ),
    "truncate": Clause("TRUNCATE TABLE {t}"),
    "select": Clause("SELECT *, {v} AS two FROM {t} WHERE id >= {v} AND p = {v} - 1 ORDER BY id"),
    "version": Clause("SELECT * FROM {t} VERSION AS OF {v}", constant=True),
    "time": Clause("SELECT * FROM {t} TIMESTAMP AS OF timestampadd(DAY, {v} - 2, '{time}')", constant=True),
    "changes": Clause("SELECT * EXCEPT (_commit_timestamp) FROM table_changes_by_path('{path}', {v})"),
    "changes to": Clause("SELECT * EXCEPT (_commit_timestamp) FROM table_changes_by_path('{path}', 0, {v})"),
    "changes from": Clause("SELECT * EXCEPT (_commit_timestamp) FROM {t} CHANGES FROM VERSION {v}", constant=True),
    "history": Clause("DESCRIBE HISTORY {t} LIMIT {v}", constant=True, shown=lambda row: (row.version, row.operation)),
    "describe query": Clause("DESCRIBE QUERY SELECT {v} AS x, * FROM {t}"),
    "explain query": Clause("EXPLAIN SELECT * FROM {t} WHERE id = {v}", shown=heading),
    "explain time": Clause(
        "EXPLAIN SELECT * FROM {t} TIMESTAMP AS OF timestampadd(DAY, {v} - 2, '{time}')", constant=True, shown=heading
    ),
    "detail": Clause("DESCRIBE DETAIL {t}", shown=lambda row: (row.format, row.numFiles, row.partitionColumns)),
    "explain": Clause("EXPLAIN UPDATE {t} SET v = {v} WHERE id = {v}", shown=heading),
    "explain merge": Clause("EXPLAIN " + MERGE + "WHEN MATCHED AND u.w > {v} THEN UPDATE SET v = {v}", shown=heading),
}


@dataclass(frozen=True)
class Way:
    """How the value 2 comes into a statement: what stands in its place, what is run before, how that is."""

    value: str
    before: tuple[str, ...] = ()
    script: str = "{statement}"
    arguments: Any = None
    constant: bool = False
    table: str = "delta.`{path}`"
    after: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


DECLARED = ("DECLARE OR REPLACE VARIABLE lim INT DEFAULT 1", "SET VAR lim = lim + 1")
UNDECLARED = ("DROP TEMPORARY VARIABLE IF EXISTS lim",)
QUOTED = 'EXECUTE IMMEDIATE "{statement}"'
# What is said where Spark takes what it can fold.
UNFOLDED = ("DELTA_CDC_NON_CONSTANT_ARGUMENT", "NON_FOLDABLE_ARGUMENT", "INVALID_INLINE_TABLE")
FOR_RANGE = ("NON_FOLDABLE_ARGUMENT", "INVALID_INLINE_TABLE")
IN_QUERIES = (*UNFOLDED, "UNSUPPORTED_FEATURE.OVERWRITE_BY_SUBQUERY", "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY")
WAYS = {
    "variable": Way("lim", DECLARED, after=UNDECLARED),
    "variable of the session": Way("session.lim", DECLARED, after=UNDECLARED),
    "variable in full": Way("system.session.LIM", DECLARED, after=UNDECLARED),
    "variable in an expression": Way("(lim * 3 - 4)", DECLARED, after=UNDECLARED),
    "field of a variable": Way(
        "st.a",
        ("DECLARE OR REPLACE VARIABLE st STRUCT<a: INT, b: STRING> DEFAULT named_struct('a', 2, 'b', 'x')",),
        after=("DROP TEMPORARY VARIABLE IF EXISTS st",),
    ),
    "variable of a script": Way("lim", script="BEGIN DECLARE lim INT DEFAULT 2; {statement}; END"),
    "label of a script": Way(
        "l.lim", script="BEGIN l: BEGIN DECLARE lim INT DEFAULT 1; SET lim = 2; {statement}; END; END"
    ),
    "inner variable of a script": Way(
        "lim",
        ("DECLARE OR REPLACE VARIABLE lim INT DEFAULT 4",),
        "BEGIN DECLARE lim INT DEFAULT 3; BEGIN DECLARE lim INT DEFAULT 2; {statement}; END; END",
        after=UNDECLARED,
    ),
    "loop": Way(
        "i",
        script="BEGIN DECLARE i INT DEFAULT 0; WHILE i < 2 DO SET i = i + 1; "
        "IF i = 2 THEN {statement}; END IF; END WHILE; END",
    ),
    "row of a loop": Way("r.x", script="BEGIN FOR r AS SELECT 2 AS x DO {statement}; END FOR; END"),
    "handler": Way(
        "lim",
        script="BEGIN DECLARE lim INT DEFAULT 1; DECLARE EXIT HANDLER FOR DIVIDE_BY_ZERO BEGIN SET lim = 2; "
        "{statement}; END; SELECT 1 / 0; END",
    ),
    "named marker": Way(":v", arguments={"v": 2}, constant=True),
    "positional marker": Way("?", arguments=[2], constant=True),
    "immediate, named": Way(":v", script=QUOTED + " USING 2 AS v", constant=True),
    "immediate, positional": Way("?", script=QUOTED + " USING {twos}", constant=True),
    "immediate, of a variable": Way(":v", DECLARED, script=QUOTED + " USING lim AS v", constant=True, after=UNDECLARED),
    "immediate, text of a script": Way(
        ":v",
        script='BEGIN DECLARE text STRING; SET text = "{statement}"; EXECUTE IMMEDIATE text USING 2 AS v; END',
        constant=True,
    ),
    "identifier of the table": Way("2", table="IDENTIFIER('delta.`{path}`')", constant=True),
    "identifier by a marker": Way(
        ":v", table="IDENTIFIER(:t)", arguments={"v": 2, "t": "delta.`{path}`"}, constant=True
    ),
    "identifier by a variable": Way(
        "lim",
        (*DECLARED, "DECLARE OR REPLACE VARIABLE tab STRING DEFAULT 'delta.`{path}`'"),
        table="IDENTIFIER(tab)",
        after=("DROP TEMPORARY VARIABLE IF EXISTS tab", *UNDECLARED),
    ),
    "identifier of a variable": Way("IDENTIFIER('li' || 'm')", DECLARED, after=UNDECLARED),
    "function of the session": Way(
        "plus_one_in_sql(1)",
        ("CREATE OR REPLACE TEMPORARY FUNCTION plus_one_in_sql(x INT) RETURNS INT RETURN x + 1",),
        after=("DROP TEMPORARY FUNCTION IF EXISTS plus_one_in_sql",),
        refused=("UNSUPPORTED_SQL_UDF_USAGE", *UNFOLDED),
    ),
    "lambda": Way("aggregate(array(1, 1), 0, (a, x) -> a + x)", refused=FOR_RANGE),
    "variable in a lambda": Way("transform(array(0), x -> x + lim)[0]", DECLARED, after=UNDECLARED, refused=FOR_RANGE),
    "lambda variable before a variable": Way(
        "transform(array(2), lim -> lim)[0]",
        ("DECLARE OR REPLACE VARIABLE lim INT DEFAULT 9",),
        after=UNDECLARED,
        refused=FOR_RANGE,
    ),
    "subquery": Way("(SELECT 1 + 1)", refused=IN_QUERIES),
    "variable in a subquery": Way(
        "(SELECT max(lim) FROM VALUES (0), (1) AS z(y) WHERE y < lim)", DECLARED, after=UNDECLARED, refused=IN_QUERIES
    ),
    # Columns go before variables: these are of the same names.
    "shadowed variables": Way(
        "2",
        tuple(f"DECLARE OR REPLACE VARIABLE {name} INT DEFAULT 77" for name in ("id", "v", "p", "w", "i", "more", "a")),
        after=tuple(f"DROP TEMPORARY VARIABLE IF EXISTS {name}" for name in ("id", "v", "p", "w", "i", "more", "a")),
    ),
}


# What is said where Spark takes constants alone.
REFUSED = (
    "PARSE_SYNTAX_ERROR",
    "INVALID_DEFAULT_VALUE.",
    "_LEGACY_ERROR_TEMP_0056",  # a time to travel to may not refer to columns, nor to variables
    "INVALID_TIME_TRAVEL_TIMESTAMP_EXPR",
)


class Matrix:
    def __init__(self, spark: Any, home: Path) -> None:
        self.spark, self.home = spark, home
        self.template = home / "template"
        name = f"delta.`{self.template}`"
        spark.sql(
            f"CREATE TABLE {name} ({COLUMNS.replace('v INT', 'v INT DEFAULT 5')}) USING delta PARTITIONED BY (p) "
            "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.feature.allowColumnDefaults' = 'supported')"
        )
        rows = "SELECT id, 10 * id, named_struct('a', id, 'b', 'x'), id % 3 FROM range({}, {}, 1, 1)"
        spark.sql(f"INSERT INTO {name} {rows.format(0, 3)}")
        spark.sql(f"INSERT INTO {name} {rows.format(3, 5)}")
        spark.sql(f"DELETE FROM {name} WHERE id = 4")
        spark.sql(f"INSERT INTO {name} {rows.format(4, 5)}")
        (self.time,) = spark.sql(f"DESCRIBE HISTORY {name}").where("version = 2").select("timestamp").first()
        self.literal: dict[str, Any] = {}
        self.count = 0

    def outcome(self, clause: Clause, way: Way) -> Any:
        """What a statement answers with and what the table is after it."""
        self.count += 1
        path, other = self.home / f"t{self.count}", self.home / f"o{self.count}"
        shutil.copytree(self.template, path, ignore=shutil.ignore_patterns("*.tmp"))

        def placed(text: str, table: str = "delta.`{path}`") -> str:
            names = {
                "{t}": table,
                "{o}": table.replace("{path}", str(other)),
                "{path}": str(path),
                "{time}": str(self.time),
            }
            for hole, name in names.items():
                text = text.replace(hole, name)
            return text

        statement = clause.text.replace("{o}", f"delta.`{other}`") if "IDENTIFIER" in way.table else clause.text
        statement = placed(statement, way.table)
        text = way.script.replace("{statement}", statement.replace("{v}", way.value))
        text = text.replace("{twos}", ", ".join("2" for _ in range(statement.count("{v}"))))
        arguments = way.arguments
        if isinstance(arguments, list):
            arguments = arguments * statement.count("{v}")
        elif isinstance(arguments, dict):
            arguments = {key: placed(given) if isinstance(given, str) else given for key, given in arguments.items()}
        try:
            for setup in way.before:
                self.spark.sql(placed(setup))
            # What is read is read now, as a script's or a variable's life ends.
            answer = (self.spark.sql(text, args=arguments) if arguments else self.spark.sql(text)).collect()
            found = self.spark.sql(placed(clause.after)).collect()
        except PySparkException as error:
            return f"{error.getCondition()}: {str(error)[:400]}"
        finally:
            for drop in way.after:
                self.spark.sql(drop)
            shutil.rmtree(path)
            shutil.rmtree(other, ignore_errors=True)
        if answer and str(answer[0][0]).startswith("Error occurred during query planning"):
            condition, _, text = str(answer[1][0]).lstrip("[").partition("]")  # what EXPLAIN has in place of a plan
            return f"{condition}: {text[:400]}"
        return self.plain([clause.shown(row) for row in answer]), self.plain(sorted(map(repr, found)))

    def plain(self, rows: list[Any]) -> str:
        return re.sub(r"#\d+L?|[to]\d+\b", "", str(rows)).replace(str(self.home), "")

    def compare(self, name: str, way: str) -> str | None:
        """Where the outcome is not that of a literal, both."""
        clause = CLAUSES[name]
        if "{twos}" in WAYS[way].script and "{v}" not in clause.text:
            return None
        if name not in self.literal:
            self.literal[name] = self.outcome(clause, Way("2"))
            assert isinstance(self.literal[name], tuple), (name, self.literal[name])
        found, literal = self.outcome(clause, WAYS[way]), self.literal[name]
        # A script answers with the rows of its last query, and with none of a command.
        if found == literal or ("BEGIN" in WAYS[way].script and found == ("[]", literal[1])):
            return None
        if isinstance(found, tuple):
            return f"{name} × {way}:\n  literal {literal}\n  now     {found}"
        if found.startswith(WAYS[way].refused) or (
            clause.constant and not WAYS[way].constant and found.startswith(REFUSED)
        ):
            return None
        return f"{name} × {way}: {found}"


@pytest.fixture(scope="module")
def matrix(spark, tmp_path_factory):
    return Matrix(spark, tmp_path_factory.mktemp("given"))


# Each clause meets one way, each way about two clauses; their order says which. The usual run has each way once: by
# turns with its first clause and with its last.
SOME = [(name, list(WAYS)[i % len(WAYS)]) for i, name in enumerate(CLAUSES)]
USUAL = [[pair for pair in SOME if pair[1] == way][-(i % 2)] for i, way in enumerate(WAYS)]


@pytest.mark.parametrize(
    ("clause", "way"),
    [pytest.param(*pair, id=" × ".join(pair), marks=[] if pair in USUAL else pytest.mark.soak) for pair in SOME],
)
def test_a_value_is_what_its_literal_is(matrix, clause, way):
    assert matrix.compare(clause, way) is None


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_all_pairs(matrix):
    wrong = [found for name in CLAUSES for way in WAYS if (found := matrix.compare(name, way))]
    assert not wrong, "\n".join(wrong)
