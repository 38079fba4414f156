"""The peer's Spark, in a process of its own, as both sides must never share a JVM.

``python -m support.sparks.peer_process HOME JARS``. Requests are those of :func:`support.sparks.answering.run`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from support.sessions import IN_UTC, lighten, settings
from support.sparks.answering import in_utc, run, serve


def main(home: str, jars: str) -> None:
    in_utc()
    serve(lambda: start(home, jars), run)


def start(home: str, jars: str) -> Any:
    from pyspark.sql import SparkSession

    own = {
        "spark.app.name": "peer",
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
        # Its VACUUM lists with so many tasks, ten thousand by default, however few directories there are.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        # To generate and compile code takes longer than these rows do without.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # The long run keeps one peer for an hour of statements, of which it forgets little.
        "spark.driver.memory": "3g" if "HEADWATER_TEST_SECONDS" in os.environ else "1200m",
    }
    builder = SparkSession.builder
    for key, value in {**settings(home, IN_UTC), **own}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    lighten(spark)
    return spark


if __name__ == "__main__":
    main(*sys.argv[1:])
