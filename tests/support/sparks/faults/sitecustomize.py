"""Faults in the handler, for tests: Python imports this at the start of a process whose PYTHONPATH names this folder.

The handler process, and no other, gets the faults that the files in ``HEADWATER_TEST_FAULTS`` ask for: ``<point>``
ends the process with SIGKILL when it gets there, ``<point>.always`` does so every time, ``<point>.wait`` holds it
there for as long as the file exists, and says so with ``<point>.waits``, with ``<point>.full`` it finds, once, no
space left on the disk. ``before_put_of_<folder>`` is before the commit to the table in that folder. Reading a table
named ``raise_<CONDITION>`` raises that condition; one named ``raise_python_<name>`` a Python exception.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: What a careless rendering of a message would trip over.
VALUE = "<b> %s {0} $1 `q` 'q' é"


def reached(point: str) -> None:
    """Die, or wait, where a test asked for it."""
    folder = Path(os.environ["HEADWATER_TEST_FAULTS"])
    while (folder / f"{point}.wait").exists():
        (folder / f"{point}.waits").touch()
        time.sleep(0.05)
    if (folder / f"{point}.full").exists():
        (folder / f"{point}.full").unlink()
        raise OSError(errno.ENOSPC, "No space left on device")
    try:
        if not (folder / f"{point}.always").exists():
            (folder / point).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def fail_if_asked(request: Any) -> None:
    """Raise what the name of the table says."""
    from headwater.basics.errors import HeadwaterError, conditions

    table = getattr(request, "table", "")
    if found := re.search(r"/raise_python_(\w+)", table):
        if found[1] == "surrogate":
            raise ValueError("a file named \udcff")
        raise {"KeyError": KeyError, "RuntimeError": RuntimeError, "MemoryError": MemoryError}[found[1]]("the cause")
    if found := re.search(r"/raise_([A-Z_0-9.]+)", table):
        lines = conditions()[found[1]]["message"]
        names = re.findall(r"<([A-Za-z][A-Za-z0-9]*)>", "".join(lines))  # type: ignore[arg-type]
        raise HeadwaterError(found[1], dict.fromkeys(names, VALUE))


def install() -> None:
    """Put the points into the handler's code."""
    reached("start")
    from headwater.bridge.calls import EntryPoint, Handler
    from headwater.bridge.statement import Statement
    from headwater.log import deletion_vectors
    from headwater.statements.registry import HANDLERS
    from headwater.stores import LocalStore

    def around(owner: Any, name: str, before: str | None, after: str | None) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def wrapped(*arguments: Any, **named: Any) -> Any:
            if before:
                reached(before)
            answer = original(*arguments, **named)
            if after:
                reached(after)
            return answer

        setattr(owner, name, wrapped)

    put = LocalStore.put_if_absent
    around(LocalStore, "put_if_absent", "before_put", "after_put")
    put_commit = LocalStore.put_if_absent

    def put_if_absent(store: LocalStore, path: str, data: bytes) -> None:
        table, log, name = path.rpartition("/_delta_log/")
        if not log or not name.endswith(".json"):
            return put(store, path, data)
        reached(f"before_put_of_{table.rpartition('/')[2]}")
        return put_commit(store, path, data)

    LocalStore.put_if_absent = put_if_absent  # type: ignore[method-assign, assignment]
    around(Statement, "write", "before_write", "after_write")
    around(Statement, "write_tracked", "before_job", "after_job")
    around(Statement, "begin_commit", "before_begin", None)
    around(Statement, "register_table", "before_entry", "after_entry")
    around(deletion_vectors, "write_file", "before_vectors", "after_vectors")

    def guarded(name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        def run(request: Any, statement: Any) -> Any:
            fail_if_asked(request)
            answer = handler(request, statement)
            reached(f"end_of_{name}")
            return answer

        return run

    assert EntryPoint is not None
    assert isinstance(HANDLERS, dict)
    for name, handler in list(HANDLERS.items()):
        HANDLERS[name] = Handler(handler.request, guarded(name, handler.run))


if "headwater.handler" in sys.orig_argv and "HEADWATER_TEST_FAULTS" in os.environ:
    install()
