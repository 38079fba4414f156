"""The calls Spark makes: one entry point, JSON in and JSON out.

Owns the envelope. An answer is ``{"result": …}`` or ``{"error": …}``; an error of Spark's own, raised by something a
handler called back, is only pointed at, and the JVM raises the original. Promise: no exception leaves this module, so
no traceback and no py4j text reaches a user; the log has them.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import orjson
from py4j.protocol import Py4JError, Py4JJavaError

from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError

logger = logging.getLogger("headwater.calls")


class EntryPoint:
    """What the JVM holds as its handler."""

    def call(self, name: str, request: str, context: Any) -> str:
        """Run a handler and wrap its answer."""
        began = time.perf_counter()
        answer = self._answer(name, request, context)
        logger.debug("%s: %.1f ms", name, (time.perf_counter() - began) * 1000)
        return answer

    def _answer(self, name: str, request: str, context: Any) -> str:
        try:
            from headwater.commands.registry import HANDLERS

            content = orjson.loads(request)
            statement = Statement(context, content.pop("session", {}))
            return _encode({"result": HANDLERS[name](content, statement)})
        except HeadwaterError as error:
            return _encode({"error": _describe(error)})
        except Py4JJavaError as error:
            logger.debug("'%s' failed in Spark", name, exc_info=True)
            return _encode({"error": {**_describe(_internal(error)), "jvm": True}})
        except MemoryError as error:
            logger.exception("'%s' ran out of memory", name)
            return _encode({"error": _describe(_internal(error))})
        except Exception as error:
            logger.exception("'%s' failed", name)
            return _encode({"error": _describe(_internal(error))})

    class Java:
        implements = ["headwater.spark.Handler"]


def _encode(answer: dict[str, Any]) -> str:
    return orjson.dumps(answer, option=orjson.OPT_NON_STR_KEYS).decode()


def _describe(error: HeadwaterError) -> dict[str, Any]:
    return {
        "condition": error.condition,
        "sqlState": error.sql_state,
        "text": error.text,
        "parameters": error.parameters,
    }


def _internal(error: Exception) -> HeadwaterError:
    if isinstance(error, OSError) and error.filename is not None:
        return HeadwaterError(
            "DELTA_FILE_ACCESS_FAILED", {"path": error.filename, "reason": error.strerror or type(error).__name__}
        )
    reason = type(error).__name__ if isinstance(error, Py4JError) else f"{type(error).__name__}: {error}"
    return HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": reason})
