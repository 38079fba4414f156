"""Values of each type into columns of each type, by each way to write: what comes of them in the engine that runs this.

The peer's process runs this very file; so it knows nothing but the session.
"""

from __future__ import annotations

import re
from typing import Any

#: A type, an expression of it that fits wherever anything does, and one that is too much for smaller types.
TYPES = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("CAST(1 AS TINYINT)", "CAST(-128 AS TINYINT)"),
    "SMALLINT": ("CAST(1 AS SMALLINT)", "CAST(300 AS SMALLINT)"),
    "INT": ("1", "70000"),
    "BIGINT": ("1L", "5000000000L"),
    "FLOAT": ("CAST(1.5 AS FLOAT)", "CAST('NaN' AS FLOAT)"),
    "DOUBLE": ("1.5D", "1e300D"),
    "DECIMAL(5,2)": ("CAST(1.25 AS DECIMAL(5,2))", "CAST(999.99 AS DECIMAL(5,2))"),
    "DECIMAL(30,0)": ("CAST(1 AS DECIMAL(30,0))", "CAST(1e25 AS DECIMAL(30,0))"),
    "STRING": ("'1'", "'text'"),
    "CHAR(3)": ("'1'", "'text'"),
    "VARCHAR(3)": ("'2024-01-01'", "'abc'"),
    "BINARY": ("X'31'", "X'FF00'"),
    "DATE": ("DATE'2024-01-01'", "DATE'9999-12-31'"),
    "TIMESTAMP": ("TIMESTAMP'2024-01-01 01:02:03'", "TIMESTAMP'1500-01-01 00:00:00'"),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2024-01-01 01:02:03'", "TIMESTAMP_NTZ'9999-12-31 23:59:59'"),
    "VARIANT": ("parse_json('1')", "parse_json('{\"a\": 1}')"),
    "STRUCT<a: INT>": ("named_struct('a', 1)", "named_struct('a', 70000)"),
    "STRUCT<a: STRING>": ("named_struct('a', '1')", "named_struct('a', 'text')"),
    "ARRAY<INT>": ("array(1)", "array(70000)"),
    "ARRAY<STRING>": ("array('1')", "array('text')"),
    "MAP<STRING, INT>": ("map('1', 1)", "map('text', 70000)"),
    "MAP<INT, STRING>": ("map(1, '1')", "map(1, 'text')"),
    "ARRAY<STRUCT<a: BIGINT>>": ("array(named_struct('a', 1L))", "array(named_struct('a', 5000000000L))"),
    "ARRAY<STRUCT<a: STRING>>": ("array(named_struct('a', '1'))", "array(named_struct('a', 'text'))"),
}

#: A way to write the row of a key, from a query of one row with the columns ``k`` and ``c``.
MERGE = "MERGE INTO {t} AS t USING ({query}) AS s ON t.k = s.k "
STATEMENTS = {
    "insert": "INSERT INTO {t} {query}",
    "insert by name": "INSERT INTO {t} BY NAME {query}",
    "update": "UPDATE {t} SET c = {value} WHERE k = 0",
    "merge, update": MERGE.replace("{query}", "SELECT 0 AS k, {value} AS c") + "WHEN MATCHED THEN UPDATE SET t.c = s.c",
    "merge, insert": MERGE + "WHEN NOT MATCHED THEN INSERT (k, c) VALUES (s.k, s.c)",
    "merge, star": MERGE + "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
}
FRAMES = {
    "save": lambda df, path: df.write.format("delta").mode("append").save(path),
    "overwrite": lambda df, path: df.write.format("delta").mode("overwrite").save(path),
    "saveAsTable": lambda df, path: df.write.format("delta").mode("append").saveAsTable(f"delta.`{path}`"),
    "insertInto": lambda df, path: df.write.insertInto(f"delta.`{path}`"),
    "writeTo": lambda df, path: df.writeTo(f"delta.`{path}`").append(),
}
WAYS = [*STATEMENTS, *FRAMES]


class Tables:
    """A table for each type; rows are told by their keys."""

    def __init__(self, spark: Any, home: str) -> None:
        self.spark, self.home = spark, home
        self.made: dict[str, str] = {}
        self.key = 0

    def path(self, kind: str, fresh: bool) -> str:
        name = re.sub(r"\W", "_", kind)
        path = f"{self.home}/{name}"
        if fresh or kind not in self.made:
            path = f"{path}_{self.key}"
            supported = "'delta.feature.variantType' = 'supported'" if kind == "VARIANT" else "'x' = 'y'"
            self.spark.sql(f"CREATE TABLE delta.`{path}` (k INT, c {kind}) USING delta TBLPROPERTIES ({supported})")
            self.spark.sql(f"INSERT INTO delta.`{path}` (k) VALUES (0)")
            if fresh:  # its other rows will be gone
                return path
            self.made[kind] = path
        return self.made[kind]

    def outcome(self, source: str, which: int, target: str, way: str, settings: dict[str, str]) -> str:
        """The value as it is stored, or the condition of the error; ``refused`` if no row was looked at."""
        self.key += 1
        path = self.path(target, fresh=way == "overwrite")
        value = TYPES[source][which]
        if source.startswith(("CHAR", "VARCHAR")):
            value = f"CAST({value} AS STRING)"
        query = f"SELECT {self.key} AS k, {value} AS c"
        for key, setting in settings.items():
            self.spark.conf.set(key, setting)
        try:
            if way in STATEMENTS:
                text = STATEMENTS[way].format(t=f"delta.`{path}`", query=query, value=value)
                self.spark.sql(text).collect()
            else:
                FRAMES[way](self.spark.sql(query), path)
        except Exception as error:
            text = str(error)
            run_time = re.search(
                r"(CAST_INVALID_INPUT|CAST_OVERFLOW_IN_TABLE_INSERT|CAST_OVERFLOW|INVALID_VARIANT_CAST"
                r"|NUMERIC_VALUE_OUT_OF_RANGE|DELTA_CAST_OVERFLOW_IN_TABLE_WRITE|DELTA_EXCEED_CHAR_VARCHAR_LIMIT)",
                text,
            )
            return run_time[1] if run_time else f"refused: {text[:160]}"
        finally:
            for key in settings:
                self.spark.conf.unset(key)
        changed = 0 if way in ("update", "merge, update") else self.key
        shown = "to_json(c)" if target == "VARIANT" else "hex(c)" if target == "BINARY" else "CAST(c AS STRING)"
        rows = self.spark.sql(f"SELECT {shown} FROM delta.`{path}` WHERE k = {changed}").collect()
        return f"stored: {[row[0] for row in rows]}"


def outcomes(spark: Any, home: str, cases: list[Any]) -> list[str]:
    tables = Tables(spark, home)
    return [tables.outcome(*case) for case in cases]
