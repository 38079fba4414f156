"""A process with a Spark that answers requests: one request and one answer a line, each a JSON object.

The answer is ``{"result": …}``, or ``{"error": {"type", "condition", "text", "traceback"}}``. The first answer belongs
to no request: it says that Spark runs, and how many ``seconds`` its start took. :mod:`support.sparks.asking` is the
other side.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from support.plain import plain


def serve(start: Callable[[], Any], answer: Callable[[Any, dict[str, Any]], Any]) -> None:
    """Start Spark, say so, answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Nothing else, Spark's own output included, may come between the answers.
    os.dup2(2, 1)
    started = time.monotonic()
    spark = start()
    print(json.dumps({"result": {"seconds": time.monotonic() - started}}), file=answers, flush=True)
    for line in sys.stdin:
        reply: dict[str, Any]
        try:
            reply = {"result": answer(spark, json.loads(line))}
        except Exception as error:
            reply = {"error": _described(error)}
        print(json.dumps(reply, default=str), file=answers, flush=True)
    spark.stop()


def run(spark: Any, request: dict[str, Any]) -> Any:
    """``{"sql": text}``: the statement's rows; ``{"python": text}``: its ``result``, where ``spark`` is known."""
    if "sql" in request:
        return [plain(row) for row in spark.sql(request["sql"]).collect()]
    names = {"spark": spark, "result": None}
    exec(request["python"], names)
    return plain(names["result"])


def in_utc() -> None:
    """Times that Spark gives to Python are in UTC."""
    os.environ["TZ"] = "UTC"
    time.tzset()


def _described(error: Exception) -> dict[str, str]:
    from pyspark.errors import PySparkException

    condition = error.getCondition() if isinstance(error, PySparkException) else None
    name = type(error).__name__
    return {
        "type": name,
        "condition": condition or name,
        "text": str(error)[:5000],
        "traceback": traceback.format_exc(),
    }
