"""The peer's Spark, in a process of its own: statements in, rows out, one JSON object a line.

Run by ``conftest.py`` with the peer's JARs; both sides must never share a JVM. A request is ``{"sql": text}`` or
``{"python": text}``, Python that sees ``spark`` and leaves its answer in ``result``; the answer is ``{"rows": [...]}``,
each value in the form :func:`plain` gives it, or ``{"error": text}``.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from decimal import Decimal
from typing import Any


def plain(value: Any) -> Any:
    """A value of any of Spark's types as JSON can hold it, the same from both engines: rows and arrays as lists,
        maps as
    sorted pairs, all else exact, as text.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, dict):
        return sorted(([plain(k), plain(v)] for k, v in value.items()), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "toJson"):
        return value.toJson()
    raise TypeError(f"{type(value).__name__} has no plain form")


def main() -> None:
    """Start Spark, say so, answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Nothing else, Spark's own output included, may come between the answers.
    os.dup2(2, 1)
    os.environ["TZ"] = "UTC"
    time.tzset()
    from pyspark.sql import SparkSession

    home, jars = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("peer")
        .config("spark.jars", jars)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", f"{home}/warehouse")
        .config("spark.local.dir", f"{home}/local")
        .config("spark.driver.memory", "1200m")
        .config(
            "spark.driver.extraJavaOptions",
            f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC -Dderby.system.home={home}",
        )
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "sql" in request:
                rows = [plain(row) for row in spark.sql(request["sql"]).collect()]
            else:
                names = {"spark": spark, "result": None}
                exec(request["python"], names)
                rows = plain(names["result"])
            answer = {"rows": rows}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:3000]}"}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
