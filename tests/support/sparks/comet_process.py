"""A Spark with Comet and Headwater: ``python -m support.sparks.comet_process HOME JAR``.

Requests are those of :func:`support.sparks.answering.run`.
"""

from __future__ import annotations

import sys
from typing import Any

from support.sessions import IN_UTC, settings
from support.sparks.answering import in_utc, run, serve


def main(home: str, jar: str) -> None:
    in_utc()
    serve(lambda: start(home, jar), run)


def start(home: str, jar: str) -> Any:
    from pyspark.sql import SparkSession

    import headwater

    own = {
        "spark.app.name": "comet",
        "spark.jars": jar,
        "spark.driver.extraClassPath": jar,
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.comet.enabled": "true",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "1g",
        "spark.driver.memory": "1g",
    }
    builder = SparkSession.builder
    for key, value in {**settings(home, IN_UTC), **own}.items():
        builder = builder.config(key, value)
    spark = headwater.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main(*sys.argv[1:])
