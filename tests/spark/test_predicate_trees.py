"""Spark's conditions arrive as trees, which never rule a file out for an outcome that one of its rows has."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from headwater.log.snapshot import load_snapshot
from headwater.pruning.evaluation import Outcome, possible
from headwater.pruning.masks import settle
from headwater.pruning.predicates import UNKNOWN, And, Not, Or, Predicate, decode
from headwater.stores import LocalStore

UTC, ELSEWHERE = "UTC", "America/New_York"
DRAWN = 150 if "HEADWATER_TEST_EXAMPLES" in os.environ else 75


@pytest.fixture
def tree(spark):
    """The JSON value of the tree of a query's condition; None where Spark's optimizer left none."""

    def of(query: str, optimized: bool = False) -> Any:
        execution = spark.sql(query)._jdf.queryExecution()
        plan = execution.optimizedPlan() if optimized else execution.analyzed()
        while plan.getClass().getSimpleName() != "Filter":
            if plan.children().isEmpty():
                return None
            plan = plan.children().apply(0)
        jvm = spark._jvm.headwater.spark
        return json.loads(jvm.bridge.Json.write(jvm.scan.filters.PredicateTree.of(plan.condition())))

    return of


def column(*path: str) -> dict[str, Any]:
    return {"op": "column", "path": list(path)}


def value(kind: str, of: Any) -> dict[str, Any]:
    return {"op": "literal", "type": kind, "value": of}


def compare(operator: str, left: Any, right: Any) -> dict[str, Any]:
    return {"op": "compare", "operator": operator, "left": left, "right": right}


def negated(child: Any) -> dict[str, Any]:
    return {"op": "not", "child": child}


NUMBER, TEXT, TRUTH = column("i"), column("s"), column("b")
ONE, TWO = value("integer", 1), value("integer", 2)
UNKNOWN_NODE = {"op": "unknown"}

#: Conditions over the columns of ``v``, as the analyzer resolves them, with the trees they are. Times are New York's.
CONDITIONS: dict[str, Any] = {
    "i = 1": compare("=", NUMBER, ONE),
    "i != 1": negated(compare("=", NUMBER, ONE)),
    "i < 1": compare("<", NUMBER, ONE),
    "i <= 1": compare("<=", NUMBER, ONE),
    "i > 1": compare("<", ONE, NUMBER),
    "i >= 1": compare("<=", ONE, NUMBER),
    "i <=> 1": compare("<=>", NUMBER, ONE),
    "i <=> NULL": compare("<=>", NUMBER, value("integer", None)),
    "1 > i": compare("<", NUMBER, ONE),
    "i IS NULL": {"op": "is_null", "child": NUMBER},
    "i IS NOT NULL": negated({"op": "is_null", "child": NUMBER}),
    "i IN (1, 2, NULL)": {
        "op": "in",
        "child": {"op": "cast", "child": NUMBER, "type": "integer"},
        "type": "integer",
        "values": [1, 2, None],
    },
    "i NOT IN (1, 2)": negated({"op": "in", "child": NUMBER, "type": "integer", "values": [1, 2]}),
    "i BETWEEN 1 AND 2": {"op": "and", "children": [compare("<=", ONE, NUMBER), compare("<=", NUMBER, TWO)]},
    "s LIKE 'x%'": {"op": "like", "child": TEXT, "pattern": "x%", "escape": "\\"},
    "s LIKE '/%%' ESCAPE '/'": {"op": "like", "child": TEXT, "pattern": "/%%", "escape": "/"},
    "startswith(s, 'x')": {"op": "starts_with", "child": TEXT, "prefix": "x"},
    "b": compare("=", TRUTH, value("boolean", True)),
    "NOT b": negated(compare("=", TRUTH, value("boolean", True))),
    "true": {"op": "constant", "value": True},
    "1 = 2": {"op": "constant", "value": False},
    "CAST(NULL AS BOOLEAN)": {"op": "constant", "value": None},
    "i = 1 AND (b OR s = 'x' OR i = 2) AND i != 1": {
        "op": "and",
        "children": [
            compare("=", NUMBER, ONE),
            {
                "op": "or",
                "children": [
                    compare("=", TRUTH, value("boolean", True)),
                    compare("=", TEXT, value("string", "x")),
                    compare("=", NUMBER, TWO),
                ],
            },
            negated(compare("=", NUMBER, ONE)),
        ],
    },
    "st.`x``y`.z = 1": compare("=", column("st", "x`y", "z"), ONE),
    "l = -9223372036854775808L": compare("=", column("l"), value("long", -(2**63))),
    "l = i": compare("=", column("l"), {"op": "cast", "child": NUMBER, "type": "long"}),
    "y = 1Y": compare("=", column("y"), value("byte", 1)),
    "h = -1S": compare("=", column("h"), value("short", -1)),
    "f = double('NaN')": compare("=", {"op": "cast", "child": column("f"), "type": "double"}, value("double", "NaN")),
    "f = float(0.1)": compare("=", column("f"), value("float", 0.10000000149011612)),
    "d = double('-Infinity')": compare("=", column("d"), value("double", "-Infinity")),
    "d = -0.1D": compare("=", column("d"), value("double", -0.1)),
    "c = 1.50": compare("=", column("c"), value("decimal(5,2)", "1.50")),
    "c = 1E-2BD": compare("=", column("c"), value("decimal(5,2)", "0.01")),
    "s = '\\U0001F600 it\\'s \\\\'": compare("=", TEXT, value("string", "😀 it's \\")),
    "s = '\\u0000'": compare("=", TEXT, value("string", "\0")),
    "bin = X'00FF'": compare("=", column("bin"), value("binary", "AP8=")),
    "da = DATE'1969-12-31'": compare("=", column("da"), value("date", -1)),
    "da = '1970-01-02'": compare("=", column("da"), value("date", 1)),
    "da > DATE'1970-01-01' + INTERVAL 1 DAY": compare("<", value("date", 1), column("da")),
    "ts = TIMESTAMP'1970-01-01 00:00:00'": compare("=", column("ts"), value("timestamp", 5 * 3_600_000_000)),
    "ts = TIMESTAMP'1970-01-01 00:00:00.000001Z'": compare("=", column("ts"), value("timestamp", 1)),
    "ts = '1970-01-01 00:00:00'": compare("=", column("ts"), value("timestamp", 5 * 3_600_000_000)),
    "n = TIMESTAMP_NTZ'1970-01-01 00:00:01'": compare("=", column("n"), value("timestamp_ntz", 1_000_000)),
    "n = TIMESTAMP_NTZ'+294247-01-10 04:00:54.775807'": compare("=", column("n"), value("timestamp_ntz", 2**63 - 1)),
    "year(da) = 1": compare("=", {"op": "year", "child": column("da")}, ONE),
    "year(ts) = 1": compare("=", {"op": "year", "child": {"op": "cast", "child": column("ts"), "type": "date"}}, ONE),
    "CAST(ts AS DATE) = DATE'1970-01-01'": compare(
        "=", {"op": "cast", "child": column("ts"), "type": "date"}, value("date", 0)
    ),
    "CAST(i AS STRING) = '1'": compare("=", {"op": "cast", "child": NUMBER, "type": "string"}, value("string", "1")),
    "s COLLATE UTF8_LCASE = 'x'": UNKNOWN_NODE,
    "k = 'x'": compare("=", column("k"), value("string collate UTF8_LCASE", "x")),
    "k IS NULL": {"op": "is_null", "child": column("k")},
    "i + 1 = 2": UNKNOWN_NODE,
    "a[0] = 1": UNKNOWN_NODE,
    "m['x'] = 1": UNKNOWN_NODE,
    "exists(a, x -> x > 1)": UNKNOWN_NODE,
    "s ILIKE 'x'": UNKNOWN_NODE,
    "s LIKE s": UNKNOWN_NODE,
    "s RLIKE 'x'": UNKNOWN_NODE,
    "i IN (1, l)": UNKNOWN_NODE,
    "i IN (SELECT 1)": UNKNOWN_NODE,
    "i = (SELECT 1)": UNKNOWN_NODE,
    "rand() < 0.5D": UNKNOWN_NODE,
    "da = current_date()": UNKNOWN_NODE,
    "ts < now()": UNKNOWN_NODE,
    "s = current_user()": UNKNOWN_NODE,
    "s = CAST(X'FF' AS STRING)": UNKNOWN_NODE,
    "i = CAST('x' AS INT)": compare("=", NUMBER, {"op": "cast", "child": value("string", "x"), "type": "integer"}),
    "t = TIME'12:00:00'": UNKNOWN_NODE,
    "i = 1 OR hash(i) = 3": {"op": "or", "children": [compare("=", NUMBER, ONE), UNKNOWN_NODE]},
}


@pytest.fixture
def everything(spark, settings):
    """A view ``v`` with columns of all types, in a session of another zone."""
    with settings({"spark.sql.session.timeZone": ELSEWHERE, "spark.sql.timeType.enabled": "true"}):
        spark.sql(
            "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT CAST(NULL AS STRUCT<`x``y`: STRUCT<z: INT>>) AS st, "
            "CAST(id AS INT) AS i, id AS l, CAST(id AS TINYINT) AS y, CAST(id AS SMALLINT) AS h, "
            "CAST(id AS FLOAT) AS f, CAST(id AS DOUBLE) AS d, CAST(id AS DECIMAL(5, 2)) AS c, CAST(id AS STRING) AS s, "
            "id = 1 AS b, "
            "CAST('x' AS BINARY) AS bin, DATE'2020-01-01' + CAST(id AS INT) AS da, timestamp_micros(id) AS ts, "
            "CAST(timestamp_micros(id) AS TIMESTAMP_NTZ) AS n, CAST(id AS STRING) COLLATE UTF8_LCASE AS k, "
            "CAST('12:00:00' AS TIME) AS t, array(id) AS a, map('x', id) AS m FROM range(3)"
        )
        yield


def test_conditions_are_the_trees_they_mean(everything, tree):
    wrong = {}
    for condition, expected in CONDITIONS.items():
        found = tree(f"SELECT * FROM v WHERE {condition}")
        if found != expected:
            wrong[condition] = found
    assert not wrong, json.dumps(wrong, indent=1)
    for expected in CONDITIONS.values():
        assert json.loads(json.dumps(expected)) == expected
        assert (decode(expected) == UNKNOWN) is (expected == UNKNOWN_NODE)


def test_long_chains_are_flat_and_deep_trees_are_cut(everything, tree):
    chain = tree("SELECT * FROM v WHERE " + " OR ".join(f"(i = {n} AND b)" for n in range(500)))
    assert (chain["op"], len(chain["children"])) == ("or", 500)
    deep = "b"
    for n in range(80):
        deep = f"(i = {n} {'AND' if n % 2 else 'OR'} {deep})"
    assert decode(tree(f"SELECT * FROM v WHERE {deep}")) != UNKNOWN
    assert '"unknown"' in json.dumps(tree(f"SELECT * FROM v WHERE {deep}"))


def test_long_lists_are_sets_once_they_are_optimized(spark, tree, database):
    spark.sql("CREATE TABLE t (l BIGINT, s STRING) USING delta")
    found = tree(f"SELECT * FROM t WHERE l IN ({', '.join(map(str, range(1000)))}, NULL)", optimized=True)
    assert found["op"] == "in"
    assert (found["type"], len(found["values"])) == ("long", 1001)
    found = tree("SELECT * FROM t WHERE s IN ('" + "', '".join(f"it{n}" for n in range(20)) + "')", optimized=True)
    (listed,) = [node for node in (found, *found.get("children", ())) if node["op"] == "in"]
    assert sorted(listed["values"]) == sorted(f"it{n}" for n in range(20))


# What Spark says of each row, and pruning of its file

#: A column's type and SQL values of it.
TYPES: dict[str, tuple[str, list[str]]] = {
    "b": ("BOOLEAN", ["true", "false"]),
    "y": ("TINYINT", ["-128Y", "0Y", "5Y", "127Y"]),
    "h": ("SMALLINT", ["-32768S", "0S", "5S", "32767S"]),
    "i": ("INT", ["-2147483648", "-5", "0", "5", "2147483647"]),
    "l": ("BIGINT", ["-9223372036854775808L", "-5L", "5L", "9007199254740993L", "9223372036854775807L"]),
    "f": ("FLOAT", ["float('NaN')", "float('-Infinity')", "-0.0F", "0.1F", "3.4028234E38F"]),
    "d": ("DOUBLE", ["double('NaN')", "double('Infinity')", "-0.0D", "0.1D", "-1.7976931348623157E308D", "5E-324D"]),
    "c": ("DECIMAL(5, 2)", ["-999.99BD", "0.00BD", "0.10BD", "999.99BD"]),
    "e": ("DECIMAL(38, 10)", ["-1234567890123456789012345678.0123456789BD", "0.1000000000BD", "5.0000000000BD"]),
    "s": ("STRING", ["''", "'a'", "'it\\'s'", "'100%'", "'\U0001f600'", "'\uffff'", "repeat('x', 40)", "'xxxxxxxxy'"]),
    "bin": ("BINARY", ["X''", "X'00FF'", "X'61'"]),
    "da": ("DATE", [f"DATE'{day}'" for day in ("0001-01-01", "1582-10-10", "1969-12-31", "2024-02-29", "9999-12-31")]),
    "ts": (
        "TIMESTAMP",
        [
            "TIMESTAMP'0001-01-01 00:00:00Z'",
            "TIMESTAMP'1883-11-18 12:00:00'",
            "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
            "TIMESTAMP'2024-03-10 03:30:00.000001'",
            "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
        ],
    ),
    "n": (
        "TIMESTAMP_NTZ",
        [
            "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
            "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'",
            "TIMESTAMP_NTZ'2024-03-10 02:30:00'",
            "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
        ],
    ),
    "st": ("STRUCT<x: INT, z: STRUCT<w: DATE>>", ["1", "2"]),
    "pi": ("INT", ["-5", "0", "5"]),
    "ps": ("STRING", ["''", "'a b'", "'it\\'s'"]),
    "pd": ("DATE", ["DATE'1582-10-10'", "DATE'2024-02-29'"]),
    "pt": ("TIMESTAMP", ["TIMESTAMP'1969-12-31 23:59:59.999999Z'", "TIMESTAMP'2024-03-10 03:30:00'"]),
}
PARTITIONS = [name for name in TYPES if name[0] == "p"]
#: Types that Spark widens to one another when it compares.
LIKE: dict[str, Sequence[str]] = {
    "y": "hilcdfe",
    "h": "yilcdfe",
    "i": "yhlcde",
    "l": "yhie",
    "f": "d",
    "c": "yhide",
    "da": ["ts", "n"],
    "n": ["da", "ts"],
}


class Conditions:
    """Random conditions over the columns."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def value(self, name: str) -> str:
        kind, values = TYPES[name]
        return f"CAST(NULL AS {kind})" if self.random.random() < 0.1 else self.random.choice(values)

    def operand(self) -> tuple[str, str]:
        """A column's name as it is asked about, and the name whose values it is compared with."""
        name = self.random.choice(list(TYPES))
        if name == "st":
            return self.random.choice([("st.x", "i"), ("st.z.w", "da")])
        if name == "da" and self.random.random() < 0.3:
            return "year(da)", "i"
        if name in ("ts", "n") and self.random.random() < 0.3:
            return f"CAST({name} AS DATE)", "da"
        return name, name

    def leaf(self) -> str:
        choose, (asked, name) = self.random.choice, self.operand()
        form = choose(["compare", "compare", "compare", "in", "null", "between", "pattern", "columns", "odd"])
        if form == "null":
            return f"{asked} IS {choose(['', 'NOT '])}NULL"
        if form == "in":
            listed = [self.value(name) for _ in range(choose([1, 2, 14]))]
            return f"{asked} {choose(['', 'NOT '])}IN ({', '.join(listed)})"
        if form == "between" and name not in ("b", "bin"):
            return f"{asked} {choose(['', 'NOT '])}BETWEEN {self.value(name)} AND {self.value(name)}"
        if form == "pattern" and name in ("s", "ps"):
            pattern = choose(["a", "it\\'s", "100/%", "xxxxxxxx", "\U0001f600", ""]) + choose(["", "%", "_", "%y"])
            return choose([f"{asked} LIKE '{pattern}' ESCAPE '/'", f"startswith({asked}, {choose(TYPES[name][1])})"])
        if form == "odd":
            return choose(
                ["hash(i) % 2 = 0", f"coalesce({asked}, {choose(TYPES[name][1])}) IS NOT NULL", "rand() < 2D"]
            )
        other = choose([name, *LIKE.get(name, ())])
        right = other if form == "columns" else self.value(other)
        return f"{asked} {choose(['=', '<', '<=', '>', '>=', '<=>', '!='])} {right}"

    def condition(self, depth: int = 0) -> str:
        pick = self.random.random()
        if depth < 3 and pick < 0.3:
            return f"({self.condition(depth + 1)} {self.random.choice(['AND', 'OR'])} {self.condition(depth + 1)})"
        if depth < 3 and pick < 0.4:
            return f"NOT ({self.condition(depth + 1)})"
        return self.leaf()

    def row(self) -> str:
        def value(name: str) -> str:
            if name != "st":
                return self.value(name)
            inner = f"named_struct('w', {self.value('da')})"
            return f"named_struct('x', {self.value('i')}, 'z', {self.random.choice([inner, 'NULL'])})"

        return ", ".join(f"CAST({value(name)} AS {kind})" for name, (kind, _) in TYPES.items())


OUTCOMES = {True: Outcome.TRUE, False: Outcome.FALSE, None: Outcome.NULL}


def unknowns(predicate: Predicate) -> int:
    match predicate:
        case And(children) | Or(children):
            return sum(unknowns(child) for child in children)
        case Not(child):
            return unknowns(child)
    return int(predicate == UNKNOWN)


@pytest.mark.parametrize("zone", [pytest.param(UTC, marks=pytest.mark.soak), ELSEWHERE])
def test_no_outcome_is_ruled_out_that_a_row_has(spark, rows, database, settings, tree, zone):
    """By the trees of random conditions, of Spark's analyzer and of its optimizer, over rows in many files."""
    made = Conditions(Random(zone))
    with settings({"spark.sql.session.timeZone": zone}):
        fields = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
        spark.sql(f"CREATE TABLE t ({fields}) USING delta PARTITIONED BY ({', '.join(PARTITIONS)})")
        # Spark's own limit on what one statement may hold in its plan asks for a few statements.
        for _ in range(3):
            union = " UNION ALL ".join(f"SELECT {made.row()}" for _ in range(10))
            spark.sql(f"INSERT INTO t SELECT /*+ REPARTITION(3) */ * FROM ({union})")
        snapshot = load_snapshot(rows("DESCRIBE DETAIL t")[0][4].removeprefix("file:"), LocalStore())
        numbers = {path.rpartition("/")[2]: n for n, path in enumerate(snapshot.files["path"].to_pylist())}
        conditions = [made.condition() for _ in range(DRAWN)]
        asked = ", ".join(f"({condition}) AS c{n}" for n, condition in enumerate(conditions))
        # Asked for as values: Spark evaluates them row by row, and skips nothing.
        outcomes: dict[int, list[set[Outcome]]] = defaultdict(lambda: [set() for _ in conditions])
        for path, *found in rows(f"SELECT _metadata.file_path, {asked} FROM t"):
            for seen, outcome in zip(outcomes[numbers[path.rpartition("/")[2]]], found, strict=True):
                seen.add(OUTCOMES[outcome])
        assert len(outcomes) == snapshot.num_files > 10
        wrong, known, needed, ruled_out, not_there = [], 0, 0, 0, 0
        for n, condition in enumerate(conditions):
            for optimized in (False, True):
                sent = tree(f"SELECT * FROM t WHERE {condition}", optimized)
                if sent is None:
                    continue
                predicate = decode(sent)
                wanted = [Outcome.TRUE] if optimized else list(Outcome)  # a filter may swap false and null
                masks = {o: settle(possible(snapshot, [predicate], o), snapshot.num_files).to_pylist() for o in wanted}
                for number, by_condition in outcomes.items():
                    there = by_condition[n]
                    for outcome in there & set(wanted):
                        if not masks[outcome][number]:
                            wrong.append((condition, sent, number, outcome))
                    if not optimized and unknowns(predicate) == 0 and Outcome.TRUE not in there:
                        not_there += 1
                        ruled_out += not masks[Outcome.TRUE][number]
                needed += not optimized
                known += not optimized and unknowns(predicate) == 0
        assert not wrong
        # And the trees are of use: most conditions are known whole, and rule out most files without such rows.
        assert known > 0.6 * needed
        assert ruled_out > 0.5 * not_there
