"""Server programs of stores, installed once from the registries and kept under ``target``, behind rules.

Owns which they are: ``azurite``, Microsoft's emulator of blobs (npm), and ``fake-gcs-server``, an emulator of Google
Cloud Storage (a Go module). ``programs NAME PROGRAM DIRECTORY`` starts one, prints its port, and ends with its standard
input. Before Google's is a server that takes rules (:mod:`support.stores.misbehaving`) and passes all else on; requests
to Azurite are signed with their headers, so it is asked itself. What such a program promises is its own: no request
waits here for another.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.jvms import fetched
from support.paths import ROOT
from support.stores.misbehaving import Misbehaving, serve

AZURITE = "3.37.0"
FAKE_GCS = "v1.55.1"
_INSTALL_SECONDS = 600
_START_SECONDS = 60
#: What concerns one connection alone.
_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding"})


def azurite() -> str:
    """The program, installed; skips the test where it cannot be."""
    there = ROOT / "target" / f"test-azurite-{AZURITE}"
    program = there / "node_modules" / ".bin" / "azurite-blob"
    _install(program, ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(there), f"azurite@{AZURITE}"])
    return str(program)


def fake_gcs_server() -> str:
    """The program, installed; skips the test where it cannot be."""
    program = ROOT / "target" / f"test-fake-gcs-{FAKE_GCS}" / "fake-gcs-server"
    _install(program, ["go", "install", f"github.com/fsouza/fake-gcs-server@{FAKE_GCS}"], GOBIN=str(program.parent))
    return str(program)


def google_jars(version: str = "4.0.4") -> list[str]:
    """Google's own connector."""
    return [str(jar) for jar in fetched(Path(__file__).with_name("google.xml"), gcs_version=version)]


def google_settings(port: int) -> dict[str, str]:
    """Hadoop's, to reach fake-gcs-server with Google's own connector."""
    return {
        "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "fs.gs.storage.root.url": f"http://127.0.0.1:{port}/",
        "fs.gs.auth.type": "UNAUTHENTICATED",
        "fs.gs.project.id": "project",
        "fs.gs.http.max.retry": "1",
        # Hadoop's defaults for its own connector, such as 64m, are no numbers to Google's.
        "fs.gs.block.size": str(64 << 20),
        "fs.gs.outputstream.buffer.size": str(8 << 20),
        "fs.gs.inputstream.inplace.seek.limit": str(8 << 20),
        "fs.gs.inputstream.min.range.request.size": str(2 << 20),
        "fs.gs.rewrite.max.chunk.size": str(512 << 20),
    }


def _install(program: Path, command: list[str], **more: str) -> None:
    if program.exists():
        return
    if shutil.which(command[0]) is None:
        pytest.skip(f"{program.name} needs {command[0]} to be installed")
    program.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command, env={**os.environ, **more}, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
    )
    if done.returncode:
        pytest.skip(f"{program.name} could not be installed: {done.stderr[-500:]}")


class Through:
    """An application that asks a server, under the name that the client knows it by."""

    def __init__(self) -> None:
        self.port = 0

    def __call__(self, environ, start_response):
        headers = {
            name[5:].replace("_", "-").title(): value
            for name, value in environ.items()
            if name.startswith("HTTP_") and name[5:].lower() not in _OF_A_CONNECTION
        }
        if environ.get("CONTENT_TYPE"):
            headers["Content-Type"] = environ["CONTENT_TYPE"]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        headers["Content-Length"] = str(len(body))
        asked = environ["RAW_URI"].partition("?")[0]
        if environ.get("QUERY_STRING"):
            asked = f"{asked}?{environ['QUERY_STRING']}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(environ["REQUEST_METHOD"], asked, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        told = [(name, value) for name, value in answer.getheaders() if name.lower() not in _OF_A_CONNECTION]
        if not any(name.lower() == "content-length" for name, _ in told):
            told.append(("Content-Length", str(len(content))))
        start_response(f"{answer.status} {answer.reason}", told)
        return [content]


def main() -> None:
    name, program, directory = sys.argv[1:]
    through = Through()
    port = serve(Misbehaving(through, one_at_a_time=False))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        through.port = free.getsockname()[1]
    behind = str(through.port)
    if name == "azurite":
        command = [program, "--blobHost", "127.0.0.1", "--blobPort", behind, "--location", directory, "--silent"]
        command += ["--skipApiVersionCheck", "--disableTelemetry"]
    else:
        command = [program, "-scheme", "http", "-host", "127.0.0.1", "-port", behind, "-backend", "memory"]
        command += ["-external-url", f"http://127.0.0.1:{port}", "-public-host", f"127.0.0.1:{port}"]
    with open(Path(directory) / "server.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", through.port), 1):
                break
            time.sleep(0.1)
        print(through.port if name == "azurite" else port, flush=True)
        sys.stdin.read()
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
