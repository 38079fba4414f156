"""Stores, each started once for the tests that ask for it: servers of S3's and of Azure's protocol, and an HDFS.

``s3`` and ``azure`` are the servers, with a new bucket or file system and no rules for each test; ``hdfs`` the URI of a
new directory; ``open_store``
gives our store of a path, as Spark would have it, without Spark.
"""

from __future__ import annotations

import base64
import html
import http.client
import json
import re
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import py4j.java_gateway
import py4j.protocol
import pytest

from support.processes import served as in_a_process
from support.sessions import settings as session_settings
from support.sparks.asking import START_SECONDS, SparkProcess
from support.stores import hadoop_jvm

_ANYBODY = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"


class Server:
    """A server in a process of its own that takes rules (:mod:`support.stores.misbehaving`)."""

    def __init__(self, port: int) -> None:
        self.port = port

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        """A request without Hadoop: status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, {"Authorization": _ANYBODY, **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def rules(self, *rules: dict[str, Any]) -> None:
        """What to do to the requests from here on; forgets those seen."""
        assert self.request("POST", "/-/rules", json.dumps(rules).encode())[0] == 200

    def seen(self) -> dict[str, Any]:
        """``most`` requests under way at once, and all ``requests`` since the last rules."""
        return json.loads(self.request("GET", "/-/seen")[1])


class S3Server(Server):
    """The server of :mod:`support.stores.s3_server`. ``bucket`` is the test's own."""

    secret = "aVerySecretKey/OfNobody+1"
    bucket = ""

    @property
    def table(self) -> str:
        return f"s3a://{self.bucket}/t"

    def paths(self) -> list[str]:
        """What is in the bucket; rules are forgotten."""
        self.rules()
        found: list[str] = []
        while True:
            after = f"&start-after={quote(found[-1])}" if found else ""
            listed = self.request("GET", f"/{self.bucket}?list-type=2{after}")[1].decode()
            names = [html.unescape(name) for name in re.findall(r"<Key>([^<]*)</Key>", listed)]
            if not names:
                return found
            found += names

    def stored(self, path: str) -> bytes:
        """An object's content."""
        status, content = self.request("GET", f"/{self.bucket}/{quote(path)}")
        assert status == 200, path
        return content

    def settings(self) -> dict[str, str]:
        """Hadoop's settings to reach it; it fails fast, as tests make it fail."""
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self.port}",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "AKIAOFNOBODY",
            "fs.s3a.secret.key": self.secret,
            "fs.s3a.attempts.maximum": "1",
            "fs.s3a.retry.limit": "1",
            "fs.s3a.retry.interval": "10ms",
        }


class AzureServer(Server):
    """The server of :mod:`support.stores.azure_server`. ``root`` is a directory of the test's own."""

    root = ""

    @property
    def table(self) -> str:
        return f"{self.root}/t"

    def settings(self) -> dict[str, str]:
        """Hadoop's settings to reach it; it fails fast, as tests make it fail."""
        return {
            f"fs.azure.account.key.127.0.0.1:{self.port}": base64.b64encode(b"a key of nobody").decode(),
            "fs.azure.account.auth.type": "SharedKey",
            "fs.azure.account.hns.enabled": "true",
            "fs.azure.always.use.https": "false",
            "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
            "fs.azure.io.retry.max.retries": "1",
            "fs.azure.io.retry.min.backoff.interval": "10",
            "fs.azure.io.retry.max.backoff.interval": "20",
            "fs.azure.io.retry.backoff.interval": "10",
        }


@pytest.fixture(autouse=True)
def _errors_of_each_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a process has a Spark session, PySpark has its JVM explain the errors of all others, too; it cannot."""
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)


@pytest.fixture(scope="session")
def served() -> Any:
    """``served(module, *arguments)``: a server that takes rules, as long as the block."""

    @contextmanager
    def serving(module: str, *arguments: str) -> Iterator[Server]:
        with in_a_process(module, *arguments) as port:
            yield Server(port)

    return serving


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with in_a_process("support.stores.s3_server") as port:
        yield S3Server(port)


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    with in_a_process("support.stores.azure_server") as port:
        yield AzureServer(port)


@pytest.fixture
def azure(azure_server: AzureServer) -> AzureServer:
    azure_server.rules()
    azure_server.root = f"abfs://box-{uuid.uuid4().hex[:12]}@127.0.0.1:{azure_server.port}/root"
    return azure_server


@pytest.fixture
def s3(s3_server: S3Server) -> S3Server:
    s3_server.rules()
    s3_server.bucket = f"bucket-{uuid.uuid4().hex[:12]}"
    assert s3_server.request("PUT", f"/{s3_server.bucket}")[0] == 200
    return s3_server


@pytest.fixture(scope="session")
def hdfs_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hadoop_jvm.hdfs(tmp_path_factory.mktemp("hdfs")) as uri:
        yield uri


@pytest.fixture
def hdfs(hdfs_uri: str) -> str:
    return f"{hdfs_uri}/test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def open_store(s3_server: S3Server, azure_server: AzureServer) -> Iterator[Any]:
    """``open_store(path, settings)``: a new store of a path, with settings of Hadoop beside those of the servers."""
    with hadoop_jvm.stores({**s3_server.settings(), **azure_server.settings()}) as open_path:
        yield open_path


class StoresSpark(SparkProcess):
    """A Spark with our two settings and the JARs of S3, as a user starts one, or a plain client of it."""

    def __init__(self, kind: str, argument: str, home: Path) -> None:
        super().__init__("driver", [kind, argument], home)
        self.receive(START_SECONDS)

    @property
    def events(self) -> str:
        """What Spark's history server is given."""
        return "".join(log.read_text() for log in self.home.glob("app-*"))

    def run(self, name: str, **arguments: Any) -> Any:
        """What a function of :mod:`support.sparks.scenarios` answers."""
        self.send({"run": name, "arguments": arguments})
        answer = self.receive(START_SECONDS)
        assert "result" in answer, answer
        return answer["result"]

    def sql(self, text: str) -> Any:
        """A statement's rows, or the error a user sees: its ``condition``, ``state`` and ``text``."""
        answer = self.run("sql", text=text)
        return answer.get("rows", answer)


@contextmanager
def spark_with(
    home: Path, jars: Sequence[str], hadoop: Mapping[str, str], more: Mapping[str, str] | None = None
) -> Iterator[StoresSpark]:
    """A Spark with these JARs and settings of Hadoop, and an executor in a process of its own."""
    settings = {
        **session_settings(home),
        "spark.master": "local-cluster[1,2,700]",
        "spark.executor.memory": "700m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": home.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.jars": ",".join(jars),
        **(more or {}),
        **{f"spark.hadoop.{key}": value for key, value in hadoop.items()},
    }
    process = StoresSpark("classic", json.dumps(settings), home)
    try:
        yield process
    finally:
        process.close(60)


@pytest.fixture(scope="session", name="spark_with")
def _spark_with() -> Any:
    """``spark_with(home, jars, hadoop)``: a Spark of the test's own, as long as the block."""
    return spark_with


@pytest.fixture(scope="session")
def connect_port() -> int:
    """A port that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def spark_process(
    s3_server: S3Server, azure_server: AzureServer, connect_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoresSpark]:
    """It has an executor in a process of its own, and serves Spark Connect."""
    hadoop = {key: value for server in (s3_server, azure_server) for key, value in server.settings().items()}
    serving = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(connect_port),
    }
    with spark_with(tmp_path_factory.mktemp("spark-of-stores"), hadoop_jvm.store_jars(), hadoop, serving) as process:
        yield process


@pytest.fixture(scope="session")
def connect_process(
    spark_process: StoresSpark, connect_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoresSpark]:
    """A client of Spark Connect, served by ``spark_process``."""
    pytest.importorskip("grpc", reason="the plain client needs pyspark[connect]")
    process = StoresSpark("connect", f"sc://127.0.0.1:{connect_port}", tmp_path_factory.mktemp("client-of-stores"))
    try:
        yield process
    finally:
        process.close(60)
