"""The catalog over Hive's metastore (embedded Derby), in a Spark process of its own: one JVM has one metastore."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from support.sessions import java_options

SCRIPT = """
import json, sys
import headwater
from pyspark.sql import SparkSession

home, options = sys.argv[1:]
derby = f"jdbc:derby:;databaseName={home}/metastore;create=true"
builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", f"{home}/warehouse")
    .config("spark.hadoop.javax.jdo.option.ConnectionURL", derby)
    .config("spark.driver.extraJavaOptions", f"{options} -Dderby.stream.error.file={home}/derby.log")
    .enableHiveSupport()
)
spark = headwater.configure(builder).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
found = {}

def rows(sql):
    return [list(row) for row in spark.sql(sql).collect()]

found["metastore"] = spark.conf.get("spark.sql.catalogImplementation")
spark.sql("CREATE DATABASE d")
spark.sql("CREATE TABLE d.t (id INT NOT NULL, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ('k' = 'v')")
spark.sql("INSERT INTO d.t VALUES (1, 'a'), (2, NULL)")
spark.sql("ALTER TABLE d.t ADD COLUMNS (`more` STRUCT<x: INT>)")
spark.sql("CREATE OR REPLACE TABLE d.r USING delta AS SELECT 1 AS id")
spark.sql("CREATE OR REPLACE TABLE d.r USING delta AS SELECT 'x' AS name")
spark.sql(f"CREATE TABLE d.e USING delta LOCATION '{home}/ex ternal' AS SELECT 5 AS id")
spark.sql("CREATE TABLE d.l LIKE d.t")
spark.sql("ALTER TABLE d.e RENAME TO d.f")
spark.sql("CREATE TABLE d.pq (id INT) USING parquet")
spark.sql("INSERT INTO d.pq VALUES (1)")
spark.sql("CREATE TABLE d.hv (id INT) STORED AS PARQUET")
spark.sql("INSERT INTO d.hv VALUES (1)")
found["rows"] = sorted(rows("SELECT id, p FROM d.t"))
found["replaced"] = rows("SELECT * FROM d.r")
found["renamed"] = rows("SELECT * FROM d.f")

def refused(sql):
    try:
        spark.sql(sql)
    except Exception as error:
        return error.getCondition()

place = f"USING delta LOCATION '{home}/ex ternal'"
found["emptied"] = [
    refused(f"CREATE OR REPLACE TABLE d.o (b INT) {place}"),
    refused(f"CREATE OR REPLACE TABLE d.o {place} AS SELECT 6 AS id"),
    refused(f"CREATE OR REPLACE TABLE d.r {place} AS SELECT 6 AS id"),
    refused(f"CREATE OR REPLACE TABLE d.f {place} AS SELECT 5 AS id"),
]
writer = spark.sql("SELECT 5 AS id").write.format("delta").mode("overwrite").option("path", f"{home}/ex ternal")
writer.saveAsTable("d.g")
found["named by a save"] = rows("SELECT * FROM d.g")
spark.sql("DROP TABLE d.g")
found["tables"] = [row[1] for row in rows("SHOW TABLES IN d")]
found["others"] = rows("SELECT * FROM d.pq UNION ALL SELECT * FROM d.hv")
found["describe"] = rows("DESCRIBE d.t")[:3]
found["properties"] = ["k", "v"] in rows("SHOW TBLPROPERTIES d.t")
found["create"] = rows("SHOW CREATE TABLE d.f")[0][0]
spark.sql("DROP TABLE d.f")
spark.sql("DROP DATABASE d CASCADE")
found["external stays"] = spark.read.format("delta").load(f"{home}/ex ternal").count()
print("FOUND " + json.dumps(found))
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
def test_hive_metastore(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), java_options()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(lines[0].removeprefix("FOUND "))
    assert found["metastore"] == "hive"
    assert found["rows"] == [[1, "a"], [2, None]]
    assert found["replaced"] == [["x"]]
    assert found["renamed"] == [[5]]
    new, known = ["DELTA_CREATE_TABLE_SCHEME_MISMATCH", "DELTA_TABLE_ALREADY_EXISTS"], "DELTA_TABLE_LOCATION_MISMATCH"
    assert found["emptied"] == [*new, known, None]
    assert found["named by a save"] == [[5]]
    assert found["tables"] == ["f", "hv", "l", "pq", "r", "t"]
    assert found["others"] == [[1], [1]]
    assert found["describe"] == [["id", "int", None], ["p", "string", None], ["more", "struct<x:int>", None]]
    assert found["properties"]
    assert f"LOCATION 'file:{tmp_path}/ex ternal'" in found["create"]
    assert found["external stays"] == 1
