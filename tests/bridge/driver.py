"""A Spark driver of its own for tests: runs the functions of ``scenarios.py`` that it is told to, one a line of JSON.

``python driver.py classic SETTINGS`` starts a Spark in this process, ``python driver.py connect URL`` is a plain client
of a server. A line ``{"run": name, "arguments": {…}}`` is answered with ``{"result": …}`` or ``{"error": traceback}``.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback

import scenarios
from pyspark.sql import SparkSession


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    kind, argument = sys.argv[1:3]
    started = time.monotonic()
    if kind == "connect":
        spark = SparkSession.builder.remote(argument).getOrCreate()
    else:
        builder = SparkSession.builder
        for key, value in json.loads(argument).items():
            builder = builder.config(key, value)
        if kind == "classic":
            import headwater

            headwater.configure(builder)
        spark = builder.getOrCreate()
    print(json.dumps({"result": {"seconds": time.monotonic() - started}}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"result": getattr(scenarios, asked["run"])(spark, **asked["arguments"])}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer, default=str), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
