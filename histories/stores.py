"""Where the tables of a round are.

Owns :func:`opened`: ``local`` is a folder; ``s3``, ``azure`` and ``google`` are servers of these protocols, ``hdfs`` is
an HDFS of one data node. Clients reach them through Hadoop's file systems in one JVM, and all but HDFS through
:mod:`histories.proxy`, or over a network of their own (:mod:`histories.network`), if the nemesis asks for it. Servers
and JARs are those of the tests of stores; Maven and Go fetch them once.
"""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from headwater.stores import Store, store_for
from histories.network import Network, separated
from histories.proxy import proxied
from support.processes import served

STORES = ("local", "s3", "azure", "google", "hdfs")
#: What happens to the network of a server of HTTP; Google's knows itself by the address of this machine.
_UNFIT = {
    "local": frozenset({"partition", "proxy"}),
    "hdfs": frozenset({"partition", "proxy"}),
    "google": frozenset({"partition"}),
}
_BUCKET = "histories"
_ANYBODY = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"


class Place(NamedTuple):
    """A place for tables.

    :param store: what this process reaches it by; None for local files.
    :param port: of the JVM that clients reach it through, ``settings`` are Hadoop's.
    :param network: what can be cut between that JVM and the server.
    """

    root: str
    store: Store | None = None
    port: int | None = None
    settings: dict[str, str] = {}
    network: Network | None = None


@contextmanager
def opened(kind: str, folder: Path, nemesis: Sequence[str], seed: int) -> Iterator[Place]:
    """A place of its own, as long as the block.

    :raises ValueError: a store of this kind cannot have the nemesis.
    """
    if unfit := _UNFIT.get(kind, frozenset()).intersection(nemesis):
        raise ValueError(f"{kind} cannot have {' and '.join(sorted(unfit))}")
    if kind == "local":
        yield Place(str(folder))
        return
    from headwater import jar_path
    from headwater.bridge.hadoop_files import HadoopFileSystem
    from support.stores import hadoop_jvm

    network: Network | None = None
    with ExitStack() as stack:
        if kind == "hdfs":
            (folder / "hdfs").mkdir()
            root, settings = stack.enter_context(hadoop_jvm.hdfs(folder / "hdfs")), dict[str, str]()
        else:
            if "partition" in nemesis:
                network = stack.enter_context(separated())
            port = stack.enter_context(_served(kind, folder, network))
            host = network.host if network else "127.0.0.1"
            if kind != "azure":
                _make_bucket(kind, host, port)
            if "proxy" in nemesis:
                host, port = "127.0.0.1", stack.enter_context(proxied(host, port, seed))
            root, settings = {"s3": _s3, "azure": _azure, "google": _google}[kind](host, port)
        jars = [jar_path(), *(_google_jars() if kind == "google" else ()), *hadoop_jvm.store_jars()]
        gateway = stack.enter_context(hadoop_jvm.jvm(jars))
        conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
        for name, value in settings.items():
            conf.set(name, value)
        files = HadoopFileSystem(lambda: gateway.jvm.headwater.spark.bridge.HadoopFiles(conf))
        store, path = store_for(f"{root}/{folder.parent.name}", files)
        yield Place(path, store, gateway.gateway_parameters.port, settings, network)


def _served(kind: str, folder: Path, network: Network | None) -> AbstractContextManager[int]:
    """The port of a server of a kind, which ends with the block."""
    inside = network.inside if network else ()
    host = [network.host] if network else []
    if kind != "google":
        return served(f"support.stores.{kind}_server", *host, inside=inside)
    from support.stores import programs

    (folder / "google").mkdir()
    return served("support.stores.programs", "google", programs.fake_gcs_server(), str(folder / "google"))


def _google_jars() -> list[str]:
    from support.stores import programs

    return programs.google_jars()


def _google(host: str, port: int) -> tuple[str, dict[str, str]]:
    """The same of a bucket of Google's."""
    from support.stores import programs

    return f"gs://{_BUCKET}", programs.google_settings(port)


def _s3(host: str, port: int) -> tuple[str, dict[str, str]]:
    """The root of a bucket, and Hadoop's settings to reach it."""
    return f"s3a://{_BUCKET}", {
        "fs.s3a.endpoint": f"http://{host}:{port}",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "AKIAOFNOBODY",
        "fs.s3a.secret.key": "aVerySecretKey/OfNobody+1",
        "fs.s3a.attempts.maximum": "2",
        "fs.s3a.retry.limit": "2",
        "fs.s3a.retry.interval": "20ms",
        "fs.s3a.connection.timeout": "20s",
    }


def _azure(host: str, port: int) -> tuple[str, dict[str, str]]:
    """The same of a file system of Azure's."""
    return f"abfs://{_BUCKET}@{host}:{port}", {
        f"fs.azure.account.key.{host}:{port}": base64.b64encode(b"a key of nobody").decode(),
        "fs.azure.account.auth.type": "SharedKey",
        "fs.azure.account.hns.enabled": "true",
        "fs.azure.always.use.https": "false",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "fs.azure.io.retry.max.retries": "2",
        "fs.azure.io.retry.min.backoff.interval": "10",
        "fs.azure.io.retry.max.backoff.interval": "20",
        "fs.azure.io.retry.backoff.interval": "10",
    }


def _make_bucket(kind: str, host: str, port: int) -> None:
    connection = http.client.HTTPConnection(host, port, timeout=30)
    if kind == "s3":
        connection.request("PUT", f"/{_BUCKET}", headers={"Authorization": _ANYBODY})
    else:
        body = json.dumps({"name": _BUCKET})
        connection.request("POST", "/storage/v1/b?project=x", body, {"Content-Type": "application/json"})
    if connection.getresponse().status != 200:
        raise RuntimeError("the server makes no bucket")
    connection.close()
