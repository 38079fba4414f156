"""Hadoop's file systems without Spark: a small JVM that has the same classes, and our stores over it.

Owns the JARs beside Spark's that stores need (``pom.xml``), and the JVMs started with them: one that
reaches stores as Spark's does, and one that runs an HDFS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway

from headwater import jar_path
from headwater.bridge.hadoop_files import HadoopFileSystem
from headwater.stores import Store, store_for
from support.jvms import SPARK_JARS, Jvm, fetched
from support.sessions import SHORT_LIVED

_MINI_CLUSTER = "hadoop-client-minicluster"
#: What Spark opens to itself too.
_OPENS = ["--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED"]


def hadoop_version() -> str:
    """The version of Spark's Hadoop."""
    (jar,) = SPARK_JARS.glob("hadoop-client-api-*.jar")
    return jar.name.removeprefix("hadoop-client-api-").removesuffix(".jar")


def store_jars() -> list[str]:
    """The JARs that make Spark's Hadoop reach S3 and Azure."""
    return [str(jar) for jar in _fetched() if not jar.name.startswith(_MINI_CLUSTER)]


def _fetched() -> list[Path]:
    return fetched(Path(__file__).with_name("pom.xml"), hadoop_version=hadoop_version())


@contextmanager
def jvm(jars: list[str], *options: str) -> Iterator[JavaGateway]:
    """A JVM with Spark's JARs and these, for any number of threads; it ends with the block, or with this process."""
    started = Jvm([*jars, f"{SPARK_JARS}/*"], ["-Xmx1g", *SHORT_LIVED.split(), *_OPENS, *options])
    try:
        yield started.gateway
    finally:
        started.close()


@contextmanager
def stores(settings: Mapping[str, str], jars: Sequence[str] = (), options: Sequence[str] = ()) -> Iterator[Any]:
    """``open(path)``: the store of a path, as Spark with these settings of Hadoop would have it;
    ``open.hadoop_version()``.

    :param jars: more of them; ``options`` of Java.
    """
    with jvm([jar_path(), *jars, *store_jars()], *options) as gateway:

        def open_store(path: str, more: Mapping[str, str] | None = None) -> Store:
            conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
            for name, value in {**settings, **(more or {})}.items():
                conf.set(name, value)
            return store_for(path, HadoopFileSystem(lambda: gateway.jvm.headwater.spark.bridge.HadoopFiles(conf)))[0]

        open_store.hadoop_version = gateway.jvm.org.apache.hadoop.util.VersionInfo.getVersion  # type: ignore[attr-defined]
        yield open_store


@contextmanager
def hdfs(directory: Path) -> Iterator[str]:
    """An HDFS of one name node and one data node; its URI. Its files lie in ``directory``."""
    with jvm([str(jar) for jar in _fetched() if jar.name.startswith(_MINI_CLUSTER)]) as gateway:
        java = gateway.jvm
        conf = java.org.apache.hadoop.conf.Configuration()
        conf.set("hdfs.minidfs.basedir", str(directory))
        cluster = getattr(java.org.apache.hadoop.hdfs, "MiniDFSCluster$Builder")(conf).numDataNodes(1).build()
        try:
            yield f"hdfs://127.0.0.1:{cluster.getNameNodePort()}"
        finally:
            cluster.shutdown()
