"""The handler process, from start to end.

Owns the handshake over standard input and output, which refuses a JAR that does not fit this package, the log on
standard error, what an operator asks by signals, and the rule that the process ends with the JVM that started it: the
JVM's death closes standard input, and that ends this process at once, whatever its threads do.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from headwater.basics import start_settings
from headwater.basics.redaction import RedactingFormatter
from headwater.bridge.log_context import AboutTable

if TYPE_CHECKING:
    from headwater.bridge.calls import Handler

logger = logging.getLogger("headwater")

#: Spark's names for the levels of a log, in Python's.
_LEVELS = {
    "ALL": "DEBUG",
    "TRACE": "DEBUG",
    "DEBUG": "DEBUG",
    "INFO": "INFO",
    "WARN": "WARNING",
    "ERROR": "ERROR",
    "FATAL": "CRITICAL",
    "OFF": "CRITICAL",
}


_LAST_MOMENT_SECONDS = 1.2


class _WithoutPandas(MetaPathFinder):
    """PyArrow imports pandas, where it is there, with its first value: half a second nothing here has a use for."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not loaded in the handler process", name=fullname)


def serve(handlers: Callable[[], Mapping[str, Handler[Any]]], at_end: Callable[[float], object]) -> None:
    """Shake hands with the JVM, then serve until it is gone.

    :param handlers: imports and returns the handlers.
    :param at_end: waits for work that goes on in the background, for at most so many seconds.
    """
    sys.meta_path.insert(0, _WithoutPandas())
    # A terminal's Ctrl-C reaches every process of its group; only the JVM cancels, through the calls.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = _receive(sys.stdin)
    if settings is None:
        return
    at_start = settings.get("settings") or {}
    start_settings.take(at_start)
    _configure_logging(at_start.get(start_settings.LOG_LEVEL, "WARN"))
    _listen_to_the_operator()
    answers = _take_standard_output()
    if error := misfit(settings):
        with answers:
            print(json.dumps({"error": error}), file=answers, flush=True)
        # A JAR from before this check does not read the answer, but shows the last line of standard error.
        sys.exit(f"{error['condition']}: {error['text']}")

    from headwater import hooks
    from headwater.bridge import gateway

    hooks.configure(start_settings.under(hooks.PREFIX))
    serving = gateway.start(str(settings["token"]), handlers)
    with answers:
        print(json.dumps({"port": serving.port}), file=answers, flush=True)
    # Nobody may call before this side knows the other's port, but what the calls need can be imported.
    threading.Thread(target=handlers, name="headwater-imports", daemon=True).start()
    if catalog := start_settings.under(start_settings.ICEBERG_CATALOG):
        from headwater.iceberg import registration

        registration.configure(catalog)
    if cache := start_settings.under(start_settings.CACHE):
        from headwater.log import column_cache

        column_cache.configure(cache)
    connection = _receive(sys.stdin)
    if connection is None:
        os._exit(0)
    serving.connect(int(connection["port"]))
    _wait_for_end(sys.stdin)
    # A checkpoint being written is worth a moment, though a JVM that was killed must not leave this process behind.
    at_end(_LAST_MOMENT_SECONDS)
    # Threads may be deep in a read or a lock; what they do can no longer reach anyone.
    os._exit(0)


def misfit(settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """The error if the JAR was built with other messages than this package has, as an ``ErrorDescription``; else None.

    :param settings: the JVM's first line. ``bridge``: :func:`headwater.basics.versions.bridge_version` as it was when
        the JAR was built; ``jar``: where the JAR is.
    """
    from headwater.basics.versions import bridge_version

    built_with, own = settings.get("bridge"), bridge_version()
    if built_with == own:
        return None
    from msgspec import to_builtins

    from headwater.basics.errors import HeadwaterError
    from headwater.bridge.calls import describe_error

    error = HeadwaterError(
        "HEADWATER_JAR_DOES_NOT_FIT",
        {
            "jar": settings.get("jar") or "headwater.jar",
            "jarVersion": built_with or "an older one",
            "package": Path(__file__).resolve().parents[1],
            "packageVersion": own,
            "command": f"{shlex.quote(sys.executable)} -m headwater jar",
        },
    )
    description: dict[str, Any] = to_builtins(describe_error(error))
    return description


def _receive(stream: TextIO) -> dict[str, Any] | None:
    line = stream.readline()
    return json.loads(line) if line else None


def _take_standard_output() -> TextIO:
    """The pipe the JVM reads, for the handshake alone: what libraries print goes to the log, from here on."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = sys.stderr
    return answers


def _wait_for_end(stream: TextIO) -> None:
    while stream.readline():
        pass


def _listen_to_the_operator() -> None:
    """SIGUSR1 writes what each thread does into the log; SIGUSR2 sets its level to DEBUG, and the next one back."""
    if not hasattr(signal, "SIGUSR1"):  # Windows
        return
    usual = logger.level
    # Works even while a library holds the interpreter.
    faulthandler.register(signal.SIGUSR1)

    def switch(number: int, frame: object) -> None:
        logger.setLevel(usual if logger.level == logging.DEBUG else logging.DEBUG)
        logger.warning("the level of this log is now %s", logging.getLevelName(logger.level))

    signal.signal(signal.SIGUSR2, switch)


def _configure_logging(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(AboutTable())
    handler.setFormatter(RedactingFormatter("%(levelname)s headwater %(about)s%(message)s"))
    logger.addHandler(handler)
    logger.setLevel(_LEVELS.get(level.upper(), "WARNING"))
    # py4j logs tracebacks of its own, as errors; they are for who debugs.
    bridge = logging.getLogger("py4j")
    bridge.propagate = False
    shown = handler if logger.isEnabledFor(logging.DEBUG) else logging.NullHandler()
    bridge.addHandler(shown)
    # Some of them go to no logger of its own. A root logger without a handler would get one that prints.
    logging.getLogger().addHandler(shown)
    logger.propagate = False
