"""A Spark whose executors are processes of their own, driven from outside: statements in, rows out, one JSON object a
line.

``python cluster_process.py HOME SETTINGS``. The cluster is what Spark's ``local-cluster`` master makes, a master and
two workers within the driver, but for the workers' hosts: Spark makes no second attempt at a task on the host of the
first, and in a ``local-cluster`` all are one host. A request is ``{"sql": text}`` or ``{"python": text}``, Python that
sees ``spark`` and leaves its answer in ``result``; the answer is ``{"rows": […]}`` or ``{"error": text, "condition":
name}``.

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

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "interop"))


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


def main() -> None:
    """Start Spark, say so, answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Nothing else, Spark's own output included, may come between the answers.
    os.dup2(2, 1)
    os.environ["TZ"] = "UTC"
    time.tzset()
    from peer_process import plain
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    import headwater

    home, settings = sys.argv[1:]
    builder = SparkSession.builder
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    headwater.configure(builder)
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(builder._options.items()))
    builder.master(start_workers(SparkContext._gateway, home, WORKER_MEMORY))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    register(spark, home)
    print(json.dumps({"rows": []}), file=answers, flush=True)
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
            condition = error.getCondition() if isinstance(error, PySparkException) else None
            answer = {"error": str(error)[:5000], "condition": condition or type(error).__name__}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
