"""Sparks of their own for the tests of the bridge: each test process drives others, as it must be able to kill them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from headwater.cli import launch
from support.kafka.broker import connector_jars
from support.paths import TESTS
from support.sparks.running import Driver, Server, Sparks, is_alive, wait_for

#: The lines (docs/metrics.md) that have a Prometheus server scrape the driver.
PROMETHEUS = {
    "spark.metrics.conf.*.sink.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
    "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
}

#: A hook for the tables that ask for it.
HOOKS = {
    f"spark.headwater.hook.checks.{part}": f"{TESTS}/support/sparks/hook_functions.py:{function}"
    for part, function in (("before", "refuse"), ("after", "note"))
}


@pytest.fixture(scope="session")
def sparks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sparks]:
    """Starts Sparks that end with the tests."""
    launch.jar_path()
    started = Sparks(tmp_path_factory.mktemp("sparks"))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URI of a catalog of Iceberg."""
    return f"sqlite:///{tmp_path_factory.mktemp('lake')}/lake.db"


@pytest.fixture(scope="session")
def classic(sparks: Sparks, lake: str) -> Driver:
    """PySpark as most use it, with faults within reach; tests share it."""
    catalog = {"": "lake", ".type": "sql", ".uri": lake, ".password": "nobody-sees-this"}
    return sparks.driver(
        settings={
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            **PROMETHEUS,
            **HOOKS,
            **{f"spark.headwater.iceberg.catalog{name}": value for name, value in catalog.items()},
        }
    )


@pytest.fixture(scope="session")
def connect_server(sparks: Sparks) -> Server:
    """A Spark Connect server that knows topics."""
    pytest.importorskip("grpc", reason="the plain client needs pyspark[connect]")
    return sparks.server("connect-server", settings={"spark.driver.extraClassPath": os.pathsep.join(connector_jars())})


@pytest.fixture(scope="session")
def thrift_server(sparks: Sparks) -> Server:
    """A Thrift server."""
    return sparks.server("thrift-server")


@pytest.fixture(scope="session")
def connect(sparks: Sparks, connect_server: Server) -> Driver:
    """A plain client of the server; it has no Headwater."""
    return sparks.driver("connect", url=f"sc://127.0.0.1:{connect_server.port}")


@pytest.fixture(scope="session")
def alive() -> Callable[[int], bool]:
    """``alive(pid)``: whether a process runs."""
    return is_alive


@pytest.fixture(scope="session")
def wait() -> Callable[..., float]:
    """``wait(reached, seconds, what)``: see :func:`wait_for`."""
    return wait_for
