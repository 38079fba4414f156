"""A Spark with OpenLineage's listener: ``python -m support.sparks.lineage_process HOME JARS``.

Requests are those of :func:`support.sparks.answering.run`. Each event is a line of ``HOME/events.json``.
"""

from __future__ import annotations

import sys
from typing import Any

from support.sessions import IN_UTC, lighten, settings
from support.sparks.answering import in_utc, run, serve


def main(home: str, jars: str) -> None:
    in_utc()
    serve(lambda: start(home, jars), run)


def start(home: str, jars: str) -> Any:
    from pyspark.sql import SparkSession

    import headwater

    own = {
        "spark.app.name": "loads",
        "spark.jars": jars,
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "file",
        "spark.openlineage.transport.location": f"{home}/events.json",
        # To generate and compile code takes longer than these rows do without.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    builder = SparkSession.builder
    for key, value in {**settings(home, IN_UTC), **own}.items():
        builder = builder.config(key, value)
    spark = headwater.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    lighten(spark)
    return spark


if __name__ == "__main__":
    main(*sys.argv[1:])
