"""Where the tables of a round are.

Owns :func:`opened`: ``local`` is a folder; ``s3`` and ``azure`` are servers of these protocols, ``hdfs`` is an HDFS of
one data node. Clients reach them through Hadoop's file systems in one JVM, and the first two through
:mod:`histories.proxy` if the nemesis asks for it. Servers and JARs are those of the tests of stores; Maven fetches the
JARs once.
"""

from __future__ import annotations

import base64
import http.client
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from headwater.stores import Store, store_for
from histories.proxy import proxied
from support.processes import served

STORES = ("local", "s3", "azure", "hdfs")
_BUCKET = "histories"
_ANYBODY = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"


class Place(NamedTuple):
    """A place for tables.

    :param store: what this process reaches it by; None for local files.
    :param port: of the JVM that clients reach it through, ``settings`` are Hadoop's.
    """

    root: str
    store: Store | None = None
    port: int | None = None
    settings: dict[str, str] = {}


@contextmanager
def opened(kind: str, folder: Path, through_proxy: bool, seed: int) -> Iterator[Place]:
    """A place of its own, as long as the block."""
    if kind == "local":
        yield Place(str(folder))
        return
    from headwater import jar_path
    from headwater.bridge.hadoop_files import HadoopFileSystem
    from support.stores import hadoop_jvm

    with ExitStack() as stack:
        if kind == "hdfs":
            if through_proxy:
                raise ValueError("the proxy is for servers of HTTP")
            (folder / "hdfs").mkdir()
            root, settings = stack.enter_context(hadoop_jvm.hdfs(folder / "hdfs")), dict[str, str]()
        else:
            port = stack.enter_context(served(f"support.stores.{kind}_server"))
            if kind == "s3":
                _make_bucket(port)
            if through_proxy:
                port = stack.enter_context(proxied(port, seed))
            root, settings = (_s3 if kind == "s3" else _azure)(port)
        gateway = stack.enter_context(hadoop_jvm.jvm([jar_path(), *hadoop_jvm.store_jars()]))
        conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
        for name, value in settings.items():
            conf.set(name, value)
        files = HadoopFileSystem(lambda: gateway.jvm.headwater.spark.bridge.HadoopFiles(conf))
        store, path = store_for(f"{root}/{folder.parent.name}", files)
        yield Place(path, store, gateway.gateway_parameters.port, settings)


def _s3(port: int) -> tuple[str, dict[str, str]]:
    """The root of a bucket, and Hadoop's settings to reach it."""
    return f"s3a://{_BUCKET}", {
        "fs.s3a.endpoint": f"http://127.0.0.1:{port}",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "AKIAOFNOBODY",
        "fs.s3a.secret.key": "aVerySecretKey/OfNobody+1",
        "fs.s3a.attempts.maximum": "2",
        "fs.s3a.retry.limit": "2",
        "fs.s3a.retry.interval": "20ms",
        "fs.s3a.connection.timeout": "20s",
    }


def _azure(port: int) -> tuple[str, dict[str, str]]:
    """The same of a file system of Azure's."""
    return f"abfs://{_BUCKET}@127.0.0.1:{port}", {
        f"fs.azure.account.key.127.0.0.1:{port}": base64.b64encode(b"a key of nobody").decode(),
        "fs.azure.account.auth.type": "SharedKey",
        "fs.azure.account.hns.enabled": "true",
        "fs.azure.always.use.https": "false",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "fs.azure.io.retry.max.retries": "2",
        "fs.azure.io.retry.min.backoff.interval": "10",
        "fs.azure.io.retry.max.backoff.interval": "20",
        "fs.azure.io.retry.backoff.interval": "10",
    }


def _make_bucket(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("PUT", f"/{_BUCKET}", headers={"Authorization": _ANYBODY})
    if connection.getresponse().status != 200:
        raise RuntimeError("the server makes no bucket")
    connection.close()
