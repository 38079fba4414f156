"""Servers that many clients come to and leave: sessions end, and the others and later ones go on."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.sparks.thrift_clients import Clients, clients_of

pytestmark = pytest.mark.spark

#: Random steps of the Thrift server's clients.
_STEPS = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "10"))


@pytest.fixture
def clients(thrift_server: Any, tmp_path: Path) -> Iterator[Clients]:
    with clients_of(thrift_server.port, tmp_path / "clients.log") as started:
        yield started


# Clients that come and go are of both kinds.
@pytest.mark.parametrize(
    "synchronous", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["synchronous", "asynchronous"]
)
def test_one_session_of_the_thrift_server_ends(clients: Clients, synchronous: bool) -> None:
    """Classes that no session has used before are found after the first has ended, too."""
    table = f"ended_{synchronous}"
    clients("open", "first")
    clients("run", "first", f"CREATE TABLE {table} USING delta AS SELECT 1 AS id", synchronous)
    clients("open", "second")
    assert clients("run", "second", f"SELECT id FROM {table}", synchronous) == ["1"]
    clients("close", "first")
    assert clients("run", "second", f"SELECT id FROM {table}", synchronous) == ["1"]
    assert clients("run", "second", f"UPDATE {table} SET id = id + 1", synchronous) == ["1"]
    clients("open", "third")
    clients("run", "third", f"CREATE TABLE {table}_2 (a INT) USING delta", synchronous)
    merge = f"MERGE INTO {table}_2 USING {table} ON a = id WHEN NOT MATCHED THEN INSERT (a) VALUES (id)"
    assert clients("run", "third", merge, synchronous) == ["1"]
    assert clients("run", "third", f"DESCRIBE HISTORY {table}_2", synchronous) == ["1", "0"]
    for name in ("second", "third"):
        clients("close", name)


def test_sessions_of_the_thrift_server_come_and_go(clients: Clients) -> None:
    """Random clients, of both kinds, open sessions, run statements, and close or drop them: all statements succeed."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    clients("open", "0")
    clients("run", "0", "CREATE OR REPLACE TABLE counted USING delta AS SELECT 0 AS n")
    opened, count = ["0"], 0
    for step in range(1, _STEPS):
        client = chance.choice(opened) if opened else None
        synchronous = chance.random() < 0.7
        match chance.choice(["open", "close", "drop", "read", "read", "write"]) if client else "open":
            case "open":
                clients("open", str(step))
                opened.append(str(step))
            case "read":
                assert clients("run", client, "SELECT n FROM counted", synchronous) == [str(count)]
            case "write":
                clients("run", client, "UPDATE counted SET n = n + 1", synchronous)
                count += 1
            case leave:
                clients(leave, client)
                opened.remove(client)
    for client in opened:
        clients("close", client)


def test_a_session_that_ended_is_compacted_for(clients: Clients) -> None:
    """Auto-compaction runs in a session of its own, so it outlives the one that made it due."""
    clients("open", "writer")
    for setting in ("enabled = true", "minNumFiles = 4"):
        clients("run", "writer", f"SET spark.databricks.delta.autoCompact.{setting}")
    clients("run", "writer", "CREATE TABLE few (id INT) USING delta")
    for number in range(4):
        clients("run", "writer", f"INSERT INTO few VALUES ({number})")
    clients("close", "writer")
    clients("open", "reader")
    until = time.monotonic() + 60
    while clients("run", "reader", "SELECT count(DISTINCT _metadata.file_path) FROM few") != ["1"]:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert clients("run", "reader", "SELECT count(*) FROM few") == ["4"]
    clients("close", "reader")


def test_ended_sessions_leave_no_class_loaders(clients: Clients, thrift_server: Any) -> None:
    if shutil.which("jcmd") is None:
        pytest.skip("counting class loaders needs jcmd, of a JDK")
    clients("open", "stays")
    clients("run", "stays", "CREATE OR REPLACE TABLE left_behind USING delta AS SELECT 1 AS id")
    for _ in range(12):
        clients("open", "goes")
        clients("run", "goes", "SELECT id FROM left_behind")
        clients("close", "goes")
    command = ["jcmd", str(thrift_server.jvm), "GC.class_histogram"]  # of objects in use, after a collection
    histogram = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"(\d+) +\d+ +headwater\.spark\.statements\.HiveSessionClassLoader\$Unclosed", histogram)
    assert sum(map(int, found)) < 10, found  # those that idle threads have used last
    clients("close", "stays")


def test_sessions_of_spark_connect_come_and_go(connect: Any, connect_server: Any) -> None:
    name = "connect_sessions"
    steps = [
        ["open", "first"],
        ["run", "first", f"CREATE TABLE {name} USING delta AS SELECT 1 AS id"],
        ["open", "second"],
        ["run", "second", f"SELECT id FROM {name}"],
        ["close", "first"],
        ["run", "second", f"UPDATE {name} SET id = id + 1"],
        ["open", "third"],
        ["run", "third", f"SELECT id FROM {name}"],
        *[[step, "many"] for _ in range(5) for step in ("open", "close")],
        ["run", "third", f"DELETE FROM {name}"],
        ["run", "second", f"DROP TABLE {name}"],
        ["close", "second"],
        ["close", "third"],
    ]
    url = f"sc://127.0.0.1:{connect_server.port}"
    assert connect.run("sessions_of", url=url, steps=steps) == [[], [[1]], [[1]], [[2]], [[1]], []]


@pytest.mark.parametrize("server", ["thrift_server", "connect_server"])
def test_servers_listen_to_this_machine_alone(server: str, request: pytest.FixtureRequest) -> None:
    if shutil.which("ss") is None:
        pytest.skip("listing listeners needs ss")
    port = request.getfixturevalue(server).port
    lines = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout.splitlines()
    found = {line.split()[3] for line in lines if line.split()[3].endswith(f":{port}")}
    assert found <= {f"127.0.0.1:{port}", f"[::ffff:127.0.0.1]:{port}"}, found
    assert found


@pytest.mark.parametrize(
    ("server", "number"),
    [
        pytest.param("thrift-server", signal.SIGINT, marks=pytest.mark.soak),  # the same hook of the same JVM
        ("connect-server", signal.SIGTERM),
    ],
)
def test_a_signal_ends_a_server(
    server: str, number: int, sparks: Any, alive: Callable[[int], bool], wait: Callable[..., float]
) -> None:
    if server == "connect-server":
        pytest.importorskip("grpc", reason="the plain client needs pyspark[connect]")
    started = sparks.server(server)
    handler = started.handler
    started.process.send_signal(number)
    assert started.process.wait(60) in (0, 128 + number, -number), started.log[-3000:]
    wait(lambda: not alive(handler), 60, "the handler's end")
    assert "NoClassDefFoundError" not in started.log
