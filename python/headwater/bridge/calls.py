"""The calls Spark makes: one entry point, JSON in and JSON out.

Owns decoding and encoding of messages (:mod:`headwater.bridge.messages`) and the envelope around them: the settings of
the session and the request come in; ``{"result": …}`` or ``{"error": …}`` goes out, with what was ``counted`` and the
commits that were ``made``. An error of Spark's own, raised by something a handler called back, is handed back to the
statement, which raises the original. Promise: no exception leaves this module, so no traceback and no py4j text reaches
a user; a debugging log has them.
"""

from __future__ import annotations

import gc
import itertools
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError

from headwater.basics import clock, counts
from headwater.basics.errors import HeadwaterError, access_failed
from headwater.bridge import log_context
from headwater.bridge.messages import Envelope, ErrorDescription, Request
from headwater.bridge.statement import Statement
from headwater.stores import is_same_place

logger = logging.getLogger("headwater.calls")
_serving = threading.local()
_NEEDLESS_QUOTES = re.compile(r"`([A-Za-z_][A-Za-z_0-9]*)`")


def serves_call() -> bool:
    """Whether this thread works for a call of Spark's."""
    return getattr(_serving, "call", False)


#: A library's objects may refer to each other and hold much memory that Python does not count: the footer of a Parquet
#: file and its schema do. So few objects make Python look for such circles after thousands of statements only.
_CALLS_BETWEEN_LOOKS = 100
#: The calls that are running: their tables and when they began, in milliseconds since the epoch, by thread.
_running: dict[int, tuple[str, int]] = {}


def running_since(table: str) -> int | None:
    """When the oldest call about a table that other threads of this process work on began, in milliseconds since the
    epoch, by whatever path it names the table; None if no such call runs.
    """
    own = threading.get_ident()
    running = list(_running.items())
    others = [since for thread, (about, since) in running if thread != own and is_same_place(about, table)]
    return min(others, default=None)


RequestT = TypeVar("RequestT", bound=Request)


@dataclass(frozen=True)
class Handler(Generic[RequestT]):
    """What serves a call.

    :param request: what the call's request is decoded to.
    :param run: takes the request and its statement; returns the answer: a struct, ``bool``, ``str`` or None.
    """

    request: type[RequestT]
    run: Callable[[RequestT, Statement], Any]

    @cached_property
    def decoder(self) -> msgspec.json.Decoder[Envelope[RequestT]]:
        """Made once: to look into a type takes longer than to decode a message."""
        return msgspec.json.Decoder(Envelope[self.request])  # type: ignore[name-defined]


class EntryPoint:
    """What the JVM holds as its handler.

    :param handlers: returns the handlers by the name of their call; asked at each call, so that they may still load as
        the gateway begins to serve.
    """

    def __init__(self, handlers: Callable[[], Mapping[str, Handler[Any]]]) -> None:
        self._handlers = handlers
        self._calls = itertools.count(1)

    def call(self, name: str, request: str, context: Any) -> str:
        """Run a handler and wrap its answer."""
        began = time.perf_counter()
        outer, about, _serving.call = serves_call(), log_context.about(), True
        try:
            answer = self._answer(name, request, context)
            logger.debug("%s: %.1f ms", name, (time.perf_counter() - began) * 1000)
            return answer
        finally:
            _serving.call = outer
            log_context.set_about(about)
            if next(self._calls) % _CALLS_BETWEEN_LOOKS == 0:
                gc.collect(1)

    def _answer(self, name: str, request: str, context: Any) -> str:
        table: str | None = None
        thread = threading.get_ident()
        outer = _running.get(thread)
        try:
            handler = self._handlers()[name]
            envelope = handler.decoder.decode(request)
            content = envelope.request
            table = getattr(_subject(content), "table", None)
            if table is not None and outer is None:
                _running[thread] = table, clock.milliseconds()
            log_context.set_about(_about(content))
            statement = Statement(context, envelope.session, _title(name, content))
            result = handler.run(content, statement)
            made = list(statement.made.values())
            return _answered(result=result, made=made) if made else _answered(result=result)
        except HeadwaterError as error:
            return _answered(error=describe_error(error))
        except Py4JJavaError as error:
            logger.debug("'%s' failed in Spark", name, exc_info=True)
            _hand_back(context, error)
            return _answered(error=describe_error(_internal(error)))
        except Py4JError as error:
            if not _is_cut_off(context):
                logger.error("'%s' failed: %s", name, _locate(error))
            logger.debug("'%s' failed, or nobody waits for it", name, exc_info=True)
            return _answered(error=describe_error(_internal(error)))
        except Exception as error:
            logger.error("'%s' failed: %s", name, _locate(error))
            logger.debug("'%s' failed", name, exc_info=True)
            return _answered(error=describe_error(_internal(error, table)))
        finally:
            if outer is None:
                _running.pop(thread, None)
            _let_go(context)

    class Java:
        implements = ["headwater.spark.bridge.Handler"]


def describe_error(error: HeadwaterError) -> ErrorDescription:
    """An error as Spark's side takes it."""
    return ErrorDescription(
        condition=error.condition, sql_state=error.sql_state, text=error.text, parameters=error.parameters
    )


def _subject(request: Request) -> Any:
    """The part of a request that names its table."""
    subject: Any = request
    for part in ("commit", "change", "batch", "sink"):
        subject = getattr(subject, part, None) or subject
    return subject


def _about(request: Request) -> str:
    """What lines of the log begin with: the tables of a request."""
    if (several := getattr(request, "requests", None)) is not None:
        return "".join(map(_about, several))
    subject = _subject(request)
    table, version = getattr(subject, "table", None), getattr(subject, "version", None)
    if table is None:
        return ""
    return f"{table}: " if version is None else f"{table}@{version}: "


def _title(name: str, request: Request) -> str:
    """A call and its table, for people."""
    subject = _subject(request)
    table = getattr(subject, "name", None) or getattr(subject, "table", None) or ""
    table = _NEEDLESS_QUOTES.sub(r"\1", table)
    return f"{name.replace('_', ' ').upper()} {table.removeprefix('spark_catalog.')}".strip()


def _is_cut_off(context: Any) -> bool:
    """Whether Spark's side has closed the connection, as it does for a statement that was cancelled."""
    connection = context._gateway_client.get_thread_connection() if isinstance(context, JavaObject) else None
    return connection is None or connection.socket is None


def _answered(**answer: Any) -> str:
    """An answer, with what was counted since the last one."""
    if (counted := counts.take()) is not None:
        answer["counted"] = counted
    return _encode(answer)


def _encode(answer: dict[str, Any]) -> str:
    try:
        text = msgspec.json.encode(answer)
    except UnicodeEncodeError:  # what a log has may be beyond what JSON's readers take
        text = msgspec.json.encode(_plain(msgspec.to_builtins(answer)))
    return text.decode()


def _plain(value: Any) -> Any:
    """The value with text that UTF-8 has."""
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return _encodable(value) if isinstance(value, str) else value


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


def _internal(error: Exception, table: str | None = None) -> HeadwaterError:
    """The error for an exception nobody foresaw, in words that are of use to who called ``table``'s statement."""
    if isinstance(error, OSError) and (error.filename is not None or error.errno is not None):
        return access_failed(error, table)
    if isinstance(error, Py4JError):
        return HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": "a call back to Spark failed"})
    if isinstance(error, MemoryError):
        reason = f"the handler process has not enough memory ({error or 'no more memory was available'})"
        return HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": reason})
    if isinstance(error, RecursionError):
        return HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": "an expression or value is nested too deeply"})
    return HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": f"{type(error).__name__}: {error}"})


def _locate(error: Exception) -> str:
    """An error and where it was raised, in one line: what a log without tracebacks has to say."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})" if place is not None else ""
    return f"{type(error).__name__}: {error}{where}"
