"""Where the tables of a round are.

Owns :func:`opened`: ``local`` is a folder; ``s3`` is a server of S3's protocol (moto), which clients reach through
Hadoop's S3A in one JVM, and that through :mod:`histories.proxy` if the nemesis asks for it. Its JARs are those of the
tests of stores; Maven fetches them once.
"""

from __future__ import annotations

import http.client
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from headwater.stores import Store, store_for
from support.processes import environment, python

STORES = ("local", "s3")
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
    from histories.proxy import proxied
    from support.stores import hadoop_jvm

    with ExitStack() as stack:
        port = stack.enter_context(_s3_server())
        if through_proxy:
            port = stack.enter_context(proxied(port, seed))
        settings = {
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
        gateway = stack.enter_context(hadoop_jvm.jvm([jar_path(), *hadoop_jvm.store_jars()]))
        conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
        for name, value in settings.items():
            conf.set(name, value)
        files = HadoopFileSystem(lambda: gateway.jvm.headwater.spark.bridge.HadoopFiles(conf))
        store, root = store_for(f"s3a://{_BUCKET}/{folder.parent.name}", files)
        yield Place(root, store, gateway.gateway_parameters.port, settings)


@contextmanager
def _s3_server() -> Iterator[int]:
    """moto's server, in a process of its own, with a bucket; its port."""
    process = subprocess.Popen(
        python("support.stores.s3_server"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("PUT", f"/{_BUCKET}", headers={"Authorization": _ANYBODY})
        if connection.getresponse().status != 200:
            raise RuntimeError("the server makes no bucket")
        connection.close()
        yield port
    finally:
        process.stdin.close()
        process.wait(30)
