"""A Spark whose executors are processes of their own, driven from outside.

``python -m support.sparks.cluster_process HOME SETTINGS``. The cluster is what Spark's ``local-cluster`` master makes,
a master and two workers within the driver, but for the workers' hosts: Spark makes no second attempt at a task on the
host of the first, and in a ``local-cluster`` all are one host. Requests are those of
:func:`support.sparks.answering.run`.

Four SQL functions tell a test where a task is: ``held(v)`` gives back its BIGINT and ``held_if(v)`` its BOOLEAN; the
first row that meets one while the latch is set waits there, see :func:`hold`. ``noise()`` is another DOUBLE each time
it is computed, and ``broken(v)`` fails.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from support.sparks.answering import in_utc, run, serve

#: Of each worker, in MiB.
WORKER_MEMORY = 1024


def hold(folder: str) -> None:
    """The first who finds ``set`` there takes it away, writes its process id to ``inside`` and waits for ``go``."""
    try:
        os.rename(f"{folder}/set", f"{folder}/taken")
    except FileNotFoundError:
        return
    with open(f"{folder}/written", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{folder}/written", f"{folder}/inside")
    parent = os.getppid()
    while not os.path.exists(f"{folder}/go") and os.getppid() == parent:
        time.sleep(0.01)


def register(spark: Any, folder: str) -> None:
    """The functions above."""
    from pyspark.sql.functions import udf

    def held(value: Any) -> Any:
        hold(folder)
        return value

    def broken(value: Any) -> Any:
        raise ValueError(f"broken for {value}")

    def noise() -> float:
        import random

        return random.random()

    spark.udf.register("held", udf(held, "bigint"))
    spark.udf.register("held_if", udf(held, "boolean"))
    spark.udf.register("broken", udf(broken, "bigint"))
    spark.udf.register("noise", udf(noise, "double").asNondeterministic())


def start_workers(gateway: Any, home: str, memory: int) -> str:
    """A master and two workers of one core and ``memory`` MiB each; the URL of the master."""
    jvm = gateway.jvm
    conf = jvm.org.apache.spark.SparkConf().set("spark.master.rest.enabled", "false")
    master = jvm.org.apache.spark.deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1()
    urls = gateway.new_array(jvm.java.lang.String, 1)
    urls[0] = f"spark://127.0.0.1:{master.address().port()}"
    nothing = jvm.scala.Option.empty()
    for number in (1, 2):
        jvm.org.apache.spark.deploy.worker.Worker.startRpcEnvAndEndpoint(
            f"127.0.0.{number}", 0, 0, 1, memory, urls, f"{home}/work", jvm.scala.Option.apply(number), conf, nothing
        )
    return str(urls[0])


def start(home: str, settings: str) -> Any:
    """The session."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    import headwater

    builder = SparkSession.builder
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    headwater.configure(builder)
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(builder._options.items()))
    builder.master(start_workers(SparkContext._gateway, home, WORKER_MEMORY))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    register(spark, home)
    return spark


def main(home: str, settings: str) -> None:
    in_utc()
    serve(lambda: start(home, settings), run)


if __name__ == "__main__":
    main(*sys.argv[1:])
