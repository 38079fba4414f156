"""Hadoop's file systems without Spark: a small JVM that has the same classes, and our stores over it.

Owns the JARs beside Spark's that stores need (``pom.xml``), fetched by Maven once and kept under ``target``, and the
JVMs started with them: one that reaches stores as Spark's does, and one that runs an HDFS.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from headwater import jar_path
from headwater.bridge.hadoop_files import HadoopFileSystem
from headwater.stores import Store, store_for
from support.paths import ROOT

_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_FETCH_SECONDS = 600
_MINI_CLUSTER = "hadoop-client-minicluster"
#: What Spark opens to itself too.
_OPENS = ["--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED"]


def hadoop_version() -> str:
    """The version of Spark's Hadoop."""
    (jar,) = _SPARK_JARS.glob("hadoop-client-api-*.jar")
    return jar.name.removeprefix("hadoop-client-api-").removesuffix(".jar")


def store_jars() -> list[str]:
    """The JARs that make Spark's Hadoop reach S3."""
    return sorted(str(jar) for jar in _fetched().glob("*.jar") if not jar.name.startswith(_MINI_CLUSTER))


def _fetched() -> Path:
    version = hadoop_version()
    pom = Path(__file__).with_name("pom.xml")
    aws = re.search(r"<aws.version>(.*)</aws.version>", pom.read_text())
    assert aws is not None
    there = ROOT / "target" / f"test-stores-{version}-{aws.group(1)}"
    if not there.is_dir():
        there.parent.mkdir(exist_ok=True)
        coming = Path(tempfile.mkdtemp(dir=there.parent))
        subprocess.run(
            ["mvn", "--batch-mode", "--quiet", "-f", pom, f"-Dhadoop.version={version}", f"-DoutputDirectory={coming}",
             "dependency:copy-dependencies"],
            check=True, timeout=_FETCH_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            coming.rename(there)
        except OSError:  # another process fetched them meanwhile
            shutil.rmtree(coming)
    return there


@contextmanager
def jvm(jars: list[str]) -> Iterator[JavaGateway]:
    """A JVM with Spark's JARs and these, for any number of threads; it ends with the block, or with this process."""
    (py4j,) = _SPARK_JARS.glob("py4j-*.jar")
    port, process = launch_gateway(
        jarpath=str(py4j),
        classpath=":".join([*jars, f"{_SPARK_JARS}/*"]),
        javaopts=["-Xmx1g", *_OPENS],
        die_on_exit=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield gateway
    finally:
        gateway.shutdown()
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def stores(settings: Mapping[str, str]) -> Iterator[Any]:
    """``open(path)``: the store of a path, as Spark with these settings of Hadoop would have it."""
    with jvm([jar_path(), *store_jars()]) as gateway:

        def open_store(path: str, more: Mapping[str, str] | None = None) -> Store:
            conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
            for name, value in {**settings, **(more or {})}.items():
                conf.set(name, value)
            return store_for(path, HadoopFileSystem(lambda: gateway.jvm.headwater.spark.bridge.HadoopFiles(conf)))[0]

        yield open_store


@contextmanager
def hdfs(directory: Path) -> Iterator[str]:
    """An HDFS of one name node and one data node; its URI. Its files lie in ``directory``."""
    with jvm([str(jar) for jar in _fetched().glob(f"{_MINI_CLUSTER}-*.jar")]) as gateway:
        java = gateway.jvm
        conf = java.org.apache.hadoop.conf.Configuration()
        conf.set("hdfs.minidfs.basedir", str(directory))
        cluster = getattr(java.org.apache.hadoop.hdfs, "MiniDFSCluster$Builder")(conf).numDataNodes(1).build()
        try:
            yield f"hdfs://127.0.0.1:{cluster.getNameNodePort()}"
        finally:
            cluster.shutdown()
