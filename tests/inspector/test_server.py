"""Who gets an answer of the inspector, what its page may do, and the command that starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.inspector import server
from headwater.inspector.server import Inspector
from headwater.inspector.table import InspectedTable
from headwater.stores import LocalStore
from inspector.conftest import Served, add, definition
from support.commits import write_commit

PAGE = Path(server.__file__).parent / "page"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_commit(tmp_path / "t", 0, *definition(("id", "long")), add("a"))
    return tmp_path / "t"


def test_only_who_has_the_address_gets_an_answer(table: Path, serve: Callable[[Path], Served]) -> None:
    served = serve(table)
    port = served.host.partition(":")[2]
    assert served.get(served.folder)[0] == 200
    assert served.get(f"{served.folder}api/overview")[0] == 200
    own = {"host": f"localhost:{port}", "origin": f"http://localhost:{port}"}
    assert served.get(f"{served.folder}api/overview", **own)[0] == 200
    assert served.get(f"{served.folder}api/overview", "HEAD")[0] == 200
    # A link may be followed from elsewhere, by a person; but not by a program of another page.
    visit = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert served.get(served.folder, sec_fetch_site="cross-site", **visit)[0] == 200
    assert served.get(served.folder[:-1])[1]["location"] == served.folder
    refused = {
        "no token": served.get("/"),
        "no token, a call": served.get("/api/overview"),
        "a wrong token": served.get(f"/{'x' * (len(served.folder) - 2)}/api/overview"),
        "part of the token": served.get(f"{served.folder[:-3]}/api/overview"),
        "a way around": served.get(f"/x/..{served.folder}api/overview"),
        "another name of the host": served.get(f"{served.folder}api/overview", host=f"evil.example:{port}"),
        "no port": served.get(f"{served.folder}api/overview", host="127.0.0.1"),
        "another origin": served.get(f"{served.folder}api/overview", origin="http://evil.example"),
        "no origin": served.get(f"{served.folder}api/overview", origin="null"),
        "a frame": served.get(served.folder, sec_fetch_site="cross-site", sec_fetch_dest="iframe"),
        "another page": served.get(f"{served.folder}api/overview", sec_fetch_site="cross-site"),
        "another port": served.get(f"{served.folder}api/overview", sec_fetch_site="same-site"),
        "writing": served.get(f"{served.folder}api/overview", "POST"),
        "deleting": served.get(f"{served.folder}api/overview", "DELETE"),
    }
    assert {name: status for name, (status, _, _) in refused.items() if status not in (403, 405, 421)} == {}
    assert all(b"id" not in body or b"table" not in body for _, _, body in refused.values())
    missing = ("nothing", "api/nothing", "..%2fserver.py", "%2e%2e/server.py", "uPlot.LICENSE.txt", "api/")
    assert {served.get(f"{served.folder}{path}")[0] for path in missing} == {404}
    for _, headers, _ in (*refused.values(), served.get(served.folder), served.get(f"{served.folder}api/sizes")):
        policy = headers["content-security-policy"]
        for word in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "trusted-types 'none'"):
            assert word in policy
        assert "unsafe" not in policy
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_the_page_loads_only_what_is_served(table: Path, serve: Callable[[Path], Served]) -> None:
    served = serve(table)
    named: set[str] = set()
    for file in ("index.html", *(path.name for path in PAGE.glob("*.js"))):
        text = (PAGE / file).read_text("utf-8")
        named |= set(re.findall(r'(?:src|href)="([^"#]+)"', text))
        named |= set(re.findall(r'^import .* from "\./([^"]+)"', text, re.MULTILINE))
    assert {"page.js", "charts.js", "dom.js", "uPlot.js", "page.css", "uPlot.css", "icon.svg"} <= named
    assert {name: served.get(served.folder + name)[0] for name in named} == dict.fromkeys(named, 200)


def test_nothing_of_the_page_makes_markup_of_text() -> None:
    """The browser forbids it as well, by the content security policy; what is forbidden would break the page."""
    ways = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|createContextualFragment"
        r"|DOMParser|javascript:|setAttribute\(\"(?:style|on)"
    )
    found = [f"{file.name}: {way}" for file in PAGE.glob("*.js") for way in ways.findall(file.read_text("utf-8"))]
    assert found == []
    page = (PAGE / "index.html").read_text("utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", page)
    assert not re.search(r"url\(|@import|https?:", (PAGE / "page.css").read_text("utf-8"))
    assert "The MIT License" in (PAGE / "uPlot.LICENSE.txt").read_text("utf-8")


def test_a_port_that_is_taken(table: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(HeadwaterError, match=rf"port {port} of 127.0.0.1") as caught:
            Inspector(InspectedTable(str(table), LocalStore()), port)
    assert caught.value.condition == "HEADWATER_INSPECT_PORT_TAKEN"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nothing", "HEADWATER_COMMAND_NEEDS_PATH"),
        ("./nothing", "HEADWATER_INSPECT_NO_TABLE"),
        (".", "HEADWATER_INSPECT_NO_TABLE"),
        ("nosuch://bucket/t", "HEADWATER_COMMAND_NEEDS_FILE_SYSTEM"),
    ],
)
def test_a_path_without_a_table(path: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.cli.inspecting import serve

    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeadwaterError) as caught:
        serve(path, 0)
    assert caught.value.condition == words
    assert path.rpartition("/")[2] in str(caught.value) or path == "."


def test_the_command_of_a_folder(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how many tables there are; without any, the error says what was not searched."""
    from headwater.cli.inspecting import serve

    monkeypatch.setattr(Inspector, "run", lambda self: self._socket.close())
    serve(str(table.parent), 0)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"1 table in {table.parent}: the page is at http://127.0.0.1:")
    assert second == "Whoever has this address can read the tables. Ctrl+C ends it."
    empty = table.parent / "empty"
    empty.mkdir()
    (empty / "link").symlink_to(table)
    with pytest.raises(HeadwaterError, match="1 symbolic link to a folder was not followed") as caught:
        serve(str(empty), 0)
    assert caught.value.condition == "HEADWATER_INSPECT_NO_TABLE"


def test_a_package_that_is_missing(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.cli.inspecting import serve

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "headwater.inspector.server")
    with pytest.raises(HeadwaterError, match=r"pip install 'headwater\[inspect\]'") as caught:
        serve(str(table), 0)
    assert caught.value.condition == "HEADWATER_INSPECT_NEEDS_PACKAGES"


def test_the_command(table: Path) -> None:
    """It prints the address, answers, starts neither Spark nor a JVM, writes nothing, and ends when it is told to."""
    before = {file: file.stat().st_mtime_ns for file in table.rglob("*")}
    code = (
        "import atexit, sys; from headwater.cli.main import main;"
        "atexit.register(lambda: print(sorted(m for m in sys.modules if m.startswith('pyspark'))));"
        "main()"
    )
    environment = {**os.environ, "PATH": os.path.dirname(sys.executable), "JAVA_HOME": "/nowhere"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, "inspect", str(table)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split(" is at ")[1].strip()
        host, _, folder = address.removeprefix("http://").partition("/")
        served = Served.__new__(Served)
        served.host = host
        status, _, body = served.get(f"/{folder}api/overview")
        assert (status, json.loads(body)["files"]) == (200, 1)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert rest.splitlines()[-1] == "[]"
    assert {file: file.stat().st_mtime_ns for file in table.rglob("*")} == before
