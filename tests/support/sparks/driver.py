"""A Spark driver of its own for tests: runs the functions of :mod:`support.sparks.scenarios` that a test asks for.

``python -m support.sparks.driver classic SETTINGS`` starts a Spark with Headwater in this process, ``plain SETTINGS``
one without; ``connect URL`` is a plain client of a server. A request is ``{"run": name, "arguments": {…}}``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from support.sparks import scenarios
from support.sparks.answering import serve


def main(kind: str, argument: str) -> None:
    def start() -> SparkSession:
        if kind == "connect":
            return SparkSession.builder.remote(argument).getOrCreate()
        builder = SparkSession.builder
        for key, value in json.loads(argument).items():
            builder = builder.config(key, value)
        if kind == "classic":
            import headwater

            headwater.configure(builder)
        return builder.getOrCreate()

    def answer(spark: SparkSession, request: dict[str, Any]) -> Any:
        return getattr(scenarios, request["run"])(spark, **request["arguments"])

    serve(start, answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
