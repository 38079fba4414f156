"""The handler process: from its start to its end.

Owns the handshake over standard input and output, the log on standard error, and the rule that the process ends with
the JVM that started it: the JVM's death closes standard input, and that ends this process at once, whatever its threads
do.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from importlib.abc import MetaPathFinder
from typing import Any, TextIO

logger = logging.getLogger("headwater")


class _WithoutPandas(MetaPathFinder):
    """PyArrow imports pandas, where it is there, with its first value: half a second nothing here has a use for."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not loaded in the handler process", name=fullname)


def main() -> None:
    """Shake hands with the JVM, then serve until it is gone."""
    sys.meta_path.insert(0, _WithoutPandas())
    # A terminal's Ctrl-C reaches every process of its group; cancelling is the JVM's decision, told through the calls.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = _receive(sys.stdin)
    if settings is None:
        return
    _configure_logging(str(settings.get("logLevel", "WARN")))
    answers = sys.stdout
    # Nothing but the handshake may go to the pipe the JVM reads.
    sys.stdout = sys.stderr

    from headwater.bridge import gateway

    serving = gateway.start(str(settings["token"]))
    print(json.dumps({"port": serving.port, "pid": os.getpid()}), file=answers, flush=True)
    told = _receive(sys.stdin)
    if told is None:
        return
    serving.connect(int(told["port"]))
    threading.Thread(target=gateway.load_handlers, name="headwater-imports", daemon=True).start()
    _wait_for_end(sys.stdin)


def _receive(stream: TextIO) -> dict[str, Any] | None:
    line = stream.readline()
    return json.loads(line) if line else None


def _wait_for_end(stream: TextIO) -> None:
    while stream.readline():
        pass
    # Threads may be deep in a read or a lock; what they do can no longer reach anyone.
    os._exit(0)


def _configure_logging(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s headwater %(threadName)s: %(message)s"))
    logger.addHandler(handler)
    known = {"TRACE": "DEBUG", "WARN": "WARNING", "FATAL": "CRITICAL", "OFF": "CRITICAL"}
    logger.setLevel(known.get(level.upper(), level.upper()))
