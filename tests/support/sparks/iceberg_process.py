"""A Spark with Iceberg's runtime: ``python -m support.sparks.iceberg_process HOME JARS``.

Requests are those of :func:`support.sparks.answering.run`.
"""

from __future__ import annotations

import sys
from typing import Any

from support.sessions import IN_UTC, settings
from support.sparks.answering import in_utc, run, serve


def main(home: str, jars: str) -> None:
    in_utc()
    serve(lambda: start(home, jars), run)


def start(home: str, jars: str) -> Any:
    from pyspark.sql import SparkSession

    own = {
        "spark.app.name": "iceberg",
        "spark.jars": jars,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": f"{home}/lake",
        "spark.driver.memory": "1g",
    }
    builder = SparkSession.builder
    for key, value in {**settings(home, IN_UTC), **own}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main(*sys.argv[1:])
