"""Texts people read: no error and no EXPLAIN names a class of ours, an object's address or the bridge.

Statements of every kind of Spark's grammar run against a table, a path, a missing table, a view of the table and a
table of another format, as they are and in EXPLAIN. Whatever the answer is, its text is looked through for names that
only a developer knows: those of the classes in our JAR, those of the objects that Spark hands a catalog, identity
hashes.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater

pytestmark = pytest.mark.spark

_TARGETS = ("t", "missing", "delta.`{path}`", "v", "p")
_STATEMENTS = """
ALTER TABLE {t} ADD COLUMNS (z INT)
ALTER TABLE {t} ADD COLUMN (s.z INT FIRST)
ALTER TABLE {t} ADD COLUMN (id INT)
ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)
ALTER TABLE {t} ADD CONSTRAINT c CHECK (nosuch > 0)
ALTER TABLE {t} ADD CONSTRAINT c PRIMARY KEY (id)
ALTER TABLE {t} ADD CONSTRAINT c FOREIGN KEY (id) REFERENCES t (id)
ALTER TABLE {t} ADD CONSTRAINT c UNIQUE (id)
ALTER TABLE {t} ADD PARTITION (day = '2024-01-01')
ALTER TABLE {t} DROP PARTITION (day = '2024-01-01')
ALTER TABLE {t} PARTITION (day = '2024-01-01') RENAME TO PARTITION (day = '2024-01-02')
ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT
ALTER TABLE {t} ALTER COLUMN id COMMENT 'c'
ALTER TABLE {t} ALTER COLUMN id SET NOT NULL
ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL
ALTER TABLE {t} ALTER COLUMN id SET DEFAULT 3
ALTER TABLE {t} ALTER COLUMN id DROP DEFAULT
ALTER TABLE {t} ALTER COLUMN id FIRST
ALTER TABLE {t} ALTER COLUMN nosuch COMMENT 'c'
ALTER TABLE {t} CHANGE COLUMN id id BIGINT
ALTER TABLE {t} CLUSTER BY (id)
ALTER TABLE {t} CLUSTER BY NONE
ALTER TABLE {t} CLUSTER BY (nosuch)
ALTER TABLE {t} COLLATION UTF8_BINARY
ALTER TABLE {t} DEFAULT COLLATION UTF8_LCASE
ALTER TABLE {t} DROP COLUMN v
ALTER TABLE {t} DROP COLUMN nosuch
ALTER TABLE {t} DROP CONSTRAINT nosuch
ALTER TABLE {t} DROP CONSTRAINT IF EXISTS nosuch
ALTER TABLE {t} RENAME COLUMN v TO w
ALTER TABLE {t} RECOVER PARTITIONS
ALTER TABLE {t} REPLACE COLUMNS (id INT)
ALTER TABLE {t} SET LOCATION '/nowhere'
ALTER TABLE {t} SET SERDE 'x'
ALTER TABLE {t} SET FILEFORMAT PARQUET
ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'false')
ALTER TABLE {t} SET TBLPROPERTIES ('delta.nosuch' = '1')
ALTER TABLE {t} UNSET TBLPROPERTIES ('mine')
ALTER VIEW {t} AS SELECT 1 AS one
ALTER VIEW {t} SET TBLPROPERTIES ('a' = 'b')
ANALYZE TABLE {t} COMPUTE STATISTICS
ANALYZE TABLE {t} COMPUTE STATISTICS FOR COLUMNS id
ANALYZE TABLE {t} PARTITION (day) COMPUTE STATISTICS
CACHE TABLE {t}
UNCACHE TABLE {t}
REFRESH TABLE {t}
COMMENT ON TABLE {t} IS 'words'
CREATE TABLE {t} (id INT) USING delta
CREATE TABLE {t} (id INT) USING delta CLUSTER BY (nosuch)
CREATE TABLE {t}_x (id INT, CONSTRAINT u UNIQUE (id)) USING delta
CREATE TABLE {t}_x (id INT) USING delta PARTITIONED BY (bucket(4, id))
CREATE TABLE {t}_x (id INT) USING delta CLUSTERED BY (id) INTO 4 BUCKETS
CREATE TABLE {t}_x (id INT) USING delta OPTIONS (a 'b')
CREATE TABLE {t}_x (id INTERVAL DAY) USING delta CLUSTER BY (id)
CREATE TABLE {t}_x (id INT) STORED AS PARQUET TBLPROPERTIES ('provider' = 'delta')
CREATE TABLE {t}_y LIKE {t}
CREATE VIEW {t}_z AS SELECT nosuch FROM {t}
CREATE INDEX i ON TABLE {t} (id)
CREATE TRIGGER x ON {t}
DESCRIBE {t}
DESCRIBE EXTENDED {t}
DESCRIBE EXTENDED {t} AS JSON
DESCRIBE {t} id
DESCRIBE {t} nosuch
DESCRIBE {t} PARTITION (day = '2024-01-01')
DESCRIBE HISTORY {t}
DESCRIBE DETAIL {t}
DELETE FROM {t} WHERE id = 99
DELETE FROM {t} WHERE nosuch = 1
DELETE FROM {t} WHERE id = (SELECT max(nosuch) FROM t)
DROP INDEX i ON TABLE {t}
DROP VIEW {t}
INSERT INTO {t} VALUES (1)
INSERT INTO {t} (id, nosuch) VALUES (1, 2)
INSERT INTO {t} PARTITION (nosuch = 1) VALUES (1)
INSERT INTO {t} REPLACE WHERE nosuch = 1 SELECT * FROM t
INSERT INTO {t} SELECT 'x', 'y', 'z'
INSERT OVERWRITE {t} SELECT nosuch FROM t
INSERT OVERWRITE DIRECTORY '{path}_d' USING delta SELECT 1
LOAD DATA INPATH '/nowhere' INTO TABLE {t}
MERGE INTO {t} a USING t b ON a.id = b.id WHEN MATCHED THEN DELETE
MERGE INTO {t} a USING t b ON a.nosuch = b.id WHEN MATCHED THEN DELETE
MERGE INTO {t} a USING missing b ON a.id = b.id WHEN MATCHED THEN DELETE
MERGE INTO {t} a USING (SELECT 1 AS k) b ON a.id = b.k WHEN NOT MATCHED THEN INSERT *
MSCK REPAIR TABLE {t}
REPLACE TABLE {t} (id INT) USING parquet
REPAIR TABLE {t} ADD PARTITIONS
SELECT * FROM {t}
SELECT nosuch FROM {t}
SELECT * FROM {t} VERSION AS OF 99
SELECT * FROM {t} TIMESTAMP AS OF '1999-01-01'
SELECT * FROM {t} CHANGES FROM VERSION 0
SELECT * FROM {t} TABLESAMPLE (1 ROWS)
SELECT * FROM table_changes('{t}', 0)
SELECT * FROM STREAM {t}
SHOW COLUMNS IN {t}
SHOW CREATE TABLE {t}
SHOW CREATE TABLE {t} AS SERDE
SHOW PARTITIONS {t}
SHOW TABLE EXTENDED LIKE '{t}'
SHOW TBLPROPERTIES {t}
SHOW TBLPROPERTIES {t} ('nosuch')
TRUNCATE TABLE {t} PARTITION (day = '2024-01-01')
TRUNCATE TABLE {t}
UPDATE {t} SET v = 'b' WHERE id = 99
UPDATE {t} SET nosuch = 1
UPDATE {t} SET id = 'x' WHERE v > 3
""".strip().splitlines()

#: Words of the objects in which Spark tells a catalog what to change.
_CHANGES = re.compile(r"\b((Add|Drop|Delete|Set|Remove|Rename|Update|Move)(Column|Property|Constraint)\w*|ClusterBy)\b")
_OURS = re.compile(r"\bheadwater\.spark\.[\w.$]+|sql\.headwater\.[\w.$]+|Headwater\w*@[0-9a-f]+")
_BRIDGE = re.compile(r"py4j|Py4J|\bhw_|jdk\.proxy|Traceback")


def _classes() -> set[str]:
    """The simple names of our classes that no English sentence has: two words or more in one."""
    with zipfile.ZipFile(headwater.jar_path()) as jar:
        names = {
            re.split(r"[/$]", name.removesuffix(".class"))[-1] for name in jar.namelist() if name.endswith(".class")
        }
    return {name for name in names if re.fullmatch(r"[A-Z][a-z]+[A-Z]\w+", name)}


#: Spark itself puts the name of a file index's class into every EXPLAIN of a scan; pieces of DML have their own tests.
#: Spark's own plans and changes of ALTER TABLE have the names of our messages.
_SPARKS = {
    "HeadwaterFileIndex",
    "AddConstraint",
    "DropConstraint",
    "ClusterBy",
    "RenameColumn",
    "AddColumn",
    "SetProperty",
}


def _strange(text: str, classes: set[str], *, explained: bool, ours: bool) -> set[str]:
    found = set(re.findall(r"\w+", text)) & (classes - _SPARKS)
    found |= set(_OURS.findall(text))
    if not explained and ours:
        found |= {match.group(0) for match in _BRIDGE.finditer(text)}
        message = text.split(";\n")[0]  # what follows is a plan of Spark's
        found |= {match.group(0) for match in _CHANGES.finditer(message)}
    return found


def _texts(spark, statement: str, *, explain: bool) -> Iterator[tuple[str, bool]]:
    """What comes of the statement, and before that what EXPLAIN says of it; errors as PySpark shows them."""
    for explained in (True, False) if explain else (False,):
        try:
            rows = spark.sql(f"EXPLAIN EXTENDED {statement}" if explained else statement).collect()
        except Exception as error:
            yield str(error).split("\nJVM stacktrace")[0], False
        else:
            if explained:
                yield "\n".join(row[0] for row in rows), True


@pytest.mark.parametrize(
    "target",
    [target if target in ("t", "missing") else pytest.param(target, marks=pytest.mark.soak) for target in _TARGETS],
    ids=["name", "missing", "path", "view", "parquet"],
)
def test_texts_are_for_users(spark, database, tmp_path: Path, target: str) -> None:
    classes = _classes()
    assert {"HeadwaterTable", "DeltaDataSource", "PinSnapshots"} <= classes
    path = tmp_path / "at"
    table = "(id INT, v STRING, s STRUCT<x: INT>, day DATE) USING delta PARTITIONED BY (day)"
    spark.sql(f"CREATE TABLE t {table}")
    spark.sql(f"CREATE TABLE delta.`{path}` {table}")
    spark.sql("CREATE TABLE p (id INT, v STRING, s STRUCT<x: INT>, day DATE) USING parquet PARTITIONED BY (day)")
    for name in ("t", f"delta.`{path}`"):
        spark.sql(f"INSERT INTO {name} VALUES (1, 'a', named_struct('x', 1), DATE '2024-01-01')")
    spark.sql("CREATE VIEW v AS SELECT * FROM t")
    said = {}
    for template in _STATEMENTS:
        statement = template.replace("{t}", target).replace("{path}", str(path))
        for text, explained in _texts(spark, statement, explain=target == "t"):
            if strange := _strange(text, classes, explained=explained, ours=target != "p"):
                said[statement] = (sorted(strange), text)
    assert not said, "\n".join(f"{statement}: {words}\n    {text[:600]}" for statement, (words, text) in said.items())
