"""YARN and HDFS in a process of their own: Hadoop's mini cluster, with two node managers and one data node."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from xml.sax.saxutils import escape

from py4j.protocol import Py4JError

from support.jvms import Jvm, fetched
from support.stores.hadoop_jvm import hadoop_version

_SETTINGS = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.8",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.nodemanager.resource.memory-mb": "8192",
    # The disk of a machine that runs tests may be nearly full, and its address spaces large.
    "yarn.nodemanager.disk-health-checker.enable": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
}
_ADDRESSES = ("yarn.resourcemanager.address", "yarn.resourcemanager.scheduler.address")


@contextmanager
def yarn(home: Path) -> Iterator[Path]:
    """The cluster while it runs: the folder for ``HADOOP_CONF_DIR``. All that it keeps lies in ``home``."""
    jars = fetched(Path(__file__).with_name("pom.xml"), hadoop_version=hadoop_version())
    before = os.getcwd()
    os.chdir(home)  # node managers keep containers below the folder that they start in
    try:
        started = Jvm([str(jar) for jar in jars], ["-Xmx1g"])
    finally:
        os.chdir(before)
    java = started.gateway.jvm
    try:
        conf = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
        conf.set("hdfs.minidfs.basedir", str(home / "hdfs"))
        files = getattr(java.org.apache.hadoop.hdfs, "MiniDFSCluster$Builder")(conf).numDataNodes(1).build()
        conf = java.org.apache.hadoop.yarn.conf.YarnConfiguration(files.getConfiguration(0))
        for name, value in _SETTINGS.items():
            conf.set(name, value)
        cluster = java.org.apache.hadoop.yarn.server.MiniYARNCluster("tests", 2, 1, 1)
        cluster.init(conf)
        cluster.start()
        found = {name: cluster.getConfig().get(name) for name in _ADDRESSES}
        site = home / "conf"
        site.mkdir()
        # YARN's own defaults count more than what core-site.xml says.
        _write(site / "core-site.xml", {"fs.defaultFS": files.getFileSystem().getUri().toString()})
        _write(site / "yarn-site.xml", found)
        yield site
        with suppress(Py4JError):
            cluster.stop()
            files.shutdown()
    finally:
        started.kill()


def _write(file: Path, settings: Mapping[str, str]) -> None:
    properties = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    file.write_text(f"<configuration>{properties}</configuration>", encoding="utf-8")
