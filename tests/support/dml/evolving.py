"""Statements that evolve their table, and what comes of them: the columns and rows, or the condition of the error.

The peer's process runs this very file; so it knows nothing but the session. Of the nested updates of a MERGE there is
every combination of container, value, clause and way to ask for evolution; docs/schema-evolution.md has their rules.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

AUTO_MERGE = {"spark.databricks.delta.schema.autoMerge.enabled": "true"}


class Case(NamedTuple):
    """Statements, over the table at ``{t}``, which begins as a copy of a base."""

    base: str | None
    statements: list[str]
    settings: dict[str, str] = {}


#: A struct of two fields, in each container: the column's type, and the value that holds a given struct.
_CONTAINERS = {
    "struct": ("STRUCT<a: INT, b: INT>", "{}"),
    "deep": ("STRUCT<x: STRUCT<a: INT, b: INT>, y: INT>", "named_struct('x', {})"),
    "array": ("ARRAY<STRUCT<a: INT, b: INT>>", "array({})"),
    "map": ("MAP<STRING, STRUCT<a: INT, b: INT>>", "map('q', {})"),
}
_OLD = {
    "struct": "named_struct('a', 1, 'b', 2)",
    "deep": "named_struct('x', named_struct('a', 1, 'b', 2), 'y', 3)",
    "array": "array(named_struct('a', 1, 'b', 2))",
    "map": "map('q', named_struct('a', 1, 'b', 2))",
}
BASES = {
    **{
        name: [
            f"CREATE TABLE {{t}} (k INT, s {kind}) USING delta",
            f"INSERT INTO {{t}} VALUES (1, {_OLD[name]}), (2, NULL)",
        ]
        for name, (kind, _) in _CONTAINERS.items()
    },
    "flat": ["CREATE TABLE {t} (k INT, a INT) USING delta", "INSERT INTO {t} VALUES (1, 1), (2, 2)"],
    "mapped": [
        "CREATE TABLE {t} (k INT, a INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO {t} VALUES (1, 1), (2, 2)",
    ],
    "computed": [
        "CREATE TABLE {t} (k INT, a INT, g INT GENERATED ALWAYS AS (a + 1), c INT) USING delta"
        " TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (c > 0)",
        "INSERT INTO {t} (k, a, c) VALUES (1, 1, 1)",
    ],
    "void": [
        "CREATE TABLE {t} (k INT, s STRUCT<a: INT, v: VOID>) USING delta",
        "INSERT INTO {t} VALUES (1, named_struct('a', 1, 'v', NULL)), (2, NULL)",
    ],
}
_VALUES = {
    "a": "named_struct('a', 10)",
    "ac": "named_struct('a', 10, 'c', 30)",
    "abc": "named_struct('a', 10, 'b', 20, 'c', 30)",
    "ba": "named_struct('b', 20, 'a', 10)",
    "null of a": "CAST(NULL AS STRUCT<a: INT>)",
    "null of abc": "CAST(NULL AS STRUCT<a: INT, b: INT, c: INT>)",
}
_CLAUSES = {
    "star": "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "whole": "WHEN MATCHED THEN UPDATE SET s = {u}.s WHEN NOT MATCHED THEN INSERT (k, s) VALUES ({u}.k, {u}.s)",
    "field a": "WHEN MATCHED THEN UPDATE SET s.a = {u}.s.a",
    "field c": "WHEN MATCHED THEN UPDATE SET s.c = {u}.s.c",
}


def _nested() -> dict[str, Case]:
    found = {}
    for container, (_, wrapped) in _CONTAINERS.items():
        for value, struct in _VALUES.items():
            for clause, text in _CLAUSES.items():
                if clause.startswith("field") and container != "struct":
                    continue
                for asked in ("not", "clause", "setting"):
                    for alias in ("u", "s"):
                        source = f"(SELECT explode(array(1, 2, 3)) AS k, {wrapped.format(struct)} AS s) {alias}"
                        words = "WITH SCHEMA EVOLUTION " if asked == "clause" else ""
                        merge = f"MERGE {words}INTO {{t}} t USING {source} ON t.k = {alias}.k {text.format(u=alias)}"
                        name = f"{container}, {value}, {clause}, {asked}, {alias}"
                        found[name] = Case(container, [merge], AUTO_MERGE if asked == "setting" else {})
    return found


_SOURCE = "(SELECT explode(array(1, 3)) AS k, 5L AS extra, 'x' AS third, 2 AS a2, 3 AS a1) s"
_ODD = "(SELECT explode(array(1, 3)) AS k, 5L AS `e.x`, 'x' AS `t d`, named_struct('q r', 1, 'z', 2) AS n) s"
_MERGE = "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING "


def _update(assignment: str, source: str = _SOURCE, base: str = "flat") -> Case:
    return Case(base, [f"{_MERGE}{source} ON t.k = s.k WHEN MATCHED THEN UPDATE SET {assignment}"])


def _insert(columns: str, source: str = _SOURCE, base: str = "flat") -> Case:
    return Case(base, [f"{_MERGE}{source} ON t.k = s.k WHEN NOT MATCHED THEN INSERT {columns}"])


#: Columns that come by expressions: those that the source has, with its types.
EXPRESSIONS = {
    "computed from itself": _update("extra = s.extra + 1"),
    "a constant": _update("third = 7"),
    "another column": _update("a1 = s.a2"),
    "named with the source's alias": _update("s.extra = 1"),
    "in no table": _update("nosuch = 7"),
    "in no table, of the source": _update("nosuch = s.a2"),
    "inserted": _insert("(k, extra) VALUES (s.k, s.extra * 2)"),
    "inserted, in no table": _insert("(k, x) VALUES (s.k, s.extra * 2)"),
    "a dot": _update("`e.x` = s.`e.x` + 1", _ODD, "mapped"),
    "a space": _update("`t d` = upper(s.`t d`)", _ODD, "mapped"),
    "a space within": _update("n.`q r` = s.n.`q r` + 1", _ODD, "mapped"),
    "inserted, odd names": _insert("(k, `e.x`, n) VALUES (s.k, s.`e.x` * 2, s.n)", _ODD, "mapped"),
    "a space in files": _update("`t d` = upper(s.`t d`)", _ODD),
}
#: Types that change under conditions, VOID, and structs that lack fields.
OTHERS = {
    "under a generated column, insert": Case(
        "computed", ["INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 9 AS k, 5L AS a, 1 AS c"]
    ),
    "under a generated column, merge": _insert("*", "(SELECT 9 AS k, 5L AS a, 1 AS c) s", "computed"),
    "under a constraint": Case(
        "computed", ["INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 9 AS k, 5 AS a, 1L AS c"]
    ),
    "void, insert": Case(
        "void",
        ["INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 3 AS k, named_struct('a', 1, 'v', 'x') AS s"],
    ),
    "void, merge": Case(
        "void",
        [
            f"{_MERGE}(SELECT explode(array(1, 3)) AS k, named_struct('a', 1, 'v', 'x') AS s) s ON t.k = s.k"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ],
    ),
    "void, alter": Case("void", ["ALTER TABLE {t} ALTER COLUMN s.v TYPE INT", "UPDATE {t} SET s.v = 4 WHERE k = 1"]),
    "void, update": Case("void", ["UPDATE {t} SET s.a = 5 WHERE k = 1", "DELETE FROM {t} WHERE k = 2"]),
    **{
        f"rows of {kind}": Case(
            None, [f"CREATE TABLE {{t}} (k INT, x {kind}) USING delta", "INSERT INTO {t} (k) VALUES (1)"]
        )
        for kind in ("ARRAY<VOID>", "MAP<STRING, VOID>", "ARRAY<STRUCT<a: INT, v: VOID>>", "STRUCT<v: VOID>")
    },
    "a field is lacking, insert": Case("struct", ["INSERT INTO {t} (k, s) VALUES (4, named_struct('a', 1))"]),
    "a field is lacking, by name": Case("struct", ["INSERT INTO {t} BY NAME SELECT 4 AS k, named_struct('b', 1) AS s"]),
    "a field is lacking, update": Case("struct", ["UPDATE {t} SET s = named_struct('a', 1)"]),
}
NESTED = _nested()
CASES = {**NESTED, **EXPRESSIONS, **OTHERS}


def outcomes(spark: Any, home: str, bases: str, names: list[str]) -> list[str]:
    """What comes of each case: its columns and rows, with ``refused:`` and the condition before them if it fails.

    :param bases: the folder of tables to begin with; those that it lacks are made.
    """
    return [_outcome(spark, f"{home}/{i}", bases, CASES[name]) for i, name in enumerate(names)]


def _outcome(spark: Any, path: str, bases: str, case: Case) -> str:
    table, refused = f"delta.`{path}`", ""
    if case.base is not None:
        base = f"{bases}/{case.base}"
        if not Path(base).exists():
            for statement in BASES[case.base]:
                spark.sql(statement.format(t=f"delta.`{base}`")).collect()
        shutil.copytree(base, path, ignore=shutil.ignore_patterns("*.tmp"))  # a checksum on its way
    for key, value in case.settings.items():
        spark.conf.set(key, value)
    try:
        for statement in case.statements:
            spark.sql(statement.format(t=table)).collect()
    except Exception as error:
        found = re.search(r"\[([A-Z][A-Z_.]+)\]", str(error))
        refused = f"refused: {found[1] if found else str(error)[:200]} "
    finally:
        for key in case.settings:
            spark.conf.unset(key)
    rows = spark.sql(f"SELECT to_json(struct(*), map('ignoreNullFields', 'false')) FROM {table}").collect()
    return f"{refused}{_columns(path)} {sorted(row[0] for row in rows)}"


def _columns(path: str) -> str:
    found = None
    for commit in sorted(Path(path, "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "metaData" in action:
                found = json.loads(action["metaData"]["schemaString"])
    return _text(found)


def _text(kind: Any) -> str:
    match kind:
        case {"type": "struct"}:
            return f"struct<{', '.join(f['name'] + ': ' + _text(f['type']) for f in kind['fields'])}>"
        case {"type": "array"}:
            return f"array<{_text(kind['elementType'])}>"
        case {"type": "map"}:
            return f"map<{_text(kind['keyType'])}, {_text(kind['valueType'])}>"
    return str(kind)
