"""The calls Spark makes: one entry point, JSON in and JSON out.

Owns the envelope. An answer is ``{"result": …}`` or ``{"error": …}``; an error of Spark's own, raised by something a
handler called back, is handed back to the statement, which raises the original. Promise: no exception leaves this
module, so no traceback and no py4j text reaches a user; a debugging log has them.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import orjson
from py4j.java_gateway import JavaObject
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
            _hand_back(context, error)
            return _encode({"error": _describe(_internal(error))})
        except Exception as error:
            logger.error("'%s' failed: %s", name, _locate(error))
            logger.debug("'%s' failed", name, exc_info=True)
            return _encode({"error": _describe(_internal(error))})
        finally:
            _let_go(context)

    class Java:
        implements = ["headwater.spark.Handler"]


def _encode(answer: dict[str, Any]) -> str:
    return orjson.dumps(answer, option=orjson.OPT_NON_STR_KEYS).decode()


def _describe(error: HeadwaterError) -> dict[str, Any]:
    return {
        "condition": error.condition,
        "sqlState": error.sql_state,
        "text": _encodable(error.text),
        "parameters": {name: _encodable(value) for name, value in error.parameters.items()},
    }


def _encodable(text: str) -> str:
    """File names that are no UTF-8 hold lone surrogates, which neither JSON nor the JVM takes."""
    return text.encode("utf-8", "replace").decode()


def _hand_back(context: Any, error: Py4JJavaError) -> None:
    try:
        context.failed(error.java_exception)
    except Py4JError:
        logger.debug("Spark's own error could not be handed back", exc_info=True)


def _let_go(context: Any) -> None:
    """Spark's side need not keep the statement until this process's garbage collector sees to it."""
    if isinstance(context, JavaObject):
        context._detach()


def _internal(error: Exception) -> HeadwaterError:
    if isinstance(error, OSError) and error.filename is not None:
        return HeadwaterError(
            "DELTA_FILE_ACCESS_FAILED", {"path": error.filename, "reason": error.strerror or type(error).__name__}
        )
    if isinstance(error, Py4JError):
        return HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": "a call back to Spark failed"})
    return HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": f"{type(error).__name__}: {error}"})


def _locate(error: Exception) -> str:
    """An error and where it was raised, in one line: what a log without tracebacks has to say."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})" if place is not None else ""
    return f"{type(error).__name__}: {error}{where}"
