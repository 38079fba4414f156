"""``python -m bench.inspector``: how long the inspector of a table with many files takes to open, and to answer.

``headwater inspect`` runs as a user starts it. Opening is over when the first facts are there: the table's figures and
its timeline. What it works out meanwhile is then waited for, and the calls that the page makes are timed, each once as
the first of its kind and then again. A target that is missed makes the exit code 1.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

import typer

from bench import big_log

#: Seconds from the start of the command until the page has its first facts, and of a call that a person waits for.
OPEN, CALL = 5.0, 0.3
_OPENING: tuple[str, ...] = ("history", "overview", "sizes")
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("newest", {}),
    ("counts", {}),
    ("optimize", {}),
    ("log", {}),
    ("advice", {}),
    ("depths", {}),
    ("version", {"number": big_log.VERSION}),
    ("overlap", {"column": "id"}),
    ("overlap", {"column": "device"}),
    ("skipping", {"where": "id = 77", "column": "id"}),
    ("skipping", {"where": "id > 500000000 AND day = '2014-05-05'", "column": "id"}),
    ("skipping", {"where": "device IN ('device-000100', 'device-000200') AND amount > 5", "column": "id"}),
)


def main(files: Annotated[int, typer.Option(help="Files of the table.")] = 1_000_000) -> None:
    """Measure one inspector."""
    with tempfile.TemporaryDirectory(prefix="headwater-inspector-") as directory:
        table = Path(directory) / "table"
        big_log.make(table, files)
        started = time.perf_counter()
        command = [sys.executable, "-m", "headwater", "inspect", str(table)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = urlsplit(process.stdout.readline().split(" is at ")[1].strip())
            print(f"{files:,} files: listens after {time.perf_counter() - started:.2f} s")
            for name in _OPENING:
                _ask(address.netloc, f"{address.path}api/{name}")
            opened = time.perf_counter() - started
            print(f"opened after {opened:.2f} s (at most {OPEN})")
            _ask(address.netloc, f"{address.path}api/depths")
            print(f"everything is worked out after {time.perf_counter() - started:.2f} s")
            slow = [] if opened <= OPEN else ["opening"]
            for name, values in _CALLS:
                path = f"{address.path}api/{name}?{urlencode({**values, 'version': big_log.VERSION})}"
                seconds = [_ask(address.netloc, path) for _ in range(3)]
                print(f"{name} {json.dumps(values)}: {', '.join(f'{each * 1000:.0f}' for each in seconds)} ms")
                slow += [name] if max(seconds) > CALL else []
        finally:
            process.terminate()
            process.wait(10)
    if slow:
        print(f"too slow: {', '.join(slow)}")
        raise typer.Exit(1)


def _ask(host: str, path: str) -> float:
    """Seconds until the whole answer is there."""
    started = time.perf_counter()
    connection = http.client.HTTPConnection(host, timeout=120)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    if response.status != 200:
        raise RuntimeError(f"{path} gave {response.status}: {body[:500]!r}")
    return time.perf_counter() - started


if __name__ == "__main__":
    typer.run(main)
