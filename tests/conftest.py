"""One Spark session for all tests that share one, and what they ask of it.

The session is the one a user has: ``headwater.configure`` and nothing else but what keeps it small. Tests share it, so
each makes its tables under names or paths of its own; ``database`` gives a schema that is dropped, with its tables,
when the test ends.
"""

from __future__ import annotations

import json
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.log.groups import settle_by
from support.paths import CONDITIONS, SHARED
from support.sessions import IN_UTC, lighten
from support.sessions import settings as session_settings

# Most tests need no Spark: only the fixtures that do import it.
if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from support.kafka.broker import Broker

pytest_plugins = ["support.suite", "support.whole_run"]


def pytest_configure() -> None:
    """What a test starts must hear an interrupt, though the tests be run in the background, where it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with Headwater, times in UTC, its warehouse and all it writes in a temporary directory."""
    from pyspark.sql import SparkSession

    import headwater

    home = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.appName("headwater-tests")
    for key, value in session_settings(home, IN_UTC).items():
        builder = builder.config(key, value)
    session = headwater.configure(builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    lighten(session)
    yield session
    session.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(autouse=True)
def _nobody_settles() -> Iterator[None]:
    """A process settles groups of commits only if it says so: what one test says does not hold for the next."""
    yield
    settle_by(None)


@pytest.fixture(autouse=True)
def _no_views_stay(request: pytest.FixtureRequest) -> Iterator[None]:
    """Temporary views are the session's: those of one test would be among the tables that the next one lists."""
    yield
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark")._jsparkSession.sessionState().catalog().clearTempTables()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker of its own for each worker; topics have names of their own."""
    from support.kafka.broker import Broker

    broker = Broker(tmp_path_factory.mktemp("kafka"))
    yield broker
    broker.kill()


@pytest.fixture(scope="session")
def spark_with_kafka(spark: SparkSession) -> SparkSession:
    """The session of all tests, which now knows the format ``kafka``."""
    from support.kafka.broker import connector_jars

    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture
def rows(spark: SparkSession) -> Callable[..., list[tuple[Any, ...]]]:
    """``rows(sql)``: the statement's rows as plain tuples, in the order they come, or sorted with ``ordered=False``."""

    def run(sql: str, ordered: bool = True) -> list[tuple[Any, ...]]:
        found = [tuple(row) for row in spark.sql(sql).collect()]
        return found if ordered else sorted(found, key=repr)

    return run


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """A new schema, current for the test, dropped with its tables after it."""
    name = f"db_{uuid.uuid4().hex[:12]}"
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"USE {name}")
    yield name
    spark.sql("USE default")
    spark.sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


@pytest.fixture
def settings(spark: SparkSession) -> Callable[[dict[str, str]], AbstractContextManager[None]]:
    """``with settings({key: value}):`` for settings of the session that are put back afterwards."""

    @contextmanager
    def given(values: dict[str, str]) -> Iterator[None]:
        before = {key: spark.conf.get(key, None) for key in values}
        for key, value in values.items():
            spark.conf.set(key, value)
        try:
            yield
        finally:
            for key, old in before.items():
                if old is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, old)

    return given


class Raised:
    """The error a ``fails`` block caught: ``error``, and its text as a user sees it, ``text``."""

    error: PySparkException
    text: str


@pytest.fixture
def fails() -> Callable[..., AbstractContextManager[Raised]]:
    """``with fails("DELTA_TABLE_NOT_FOUND", "words", ...):`` the block must raise an error of that condition whose text
    has the words.

    The SQLSTATE is compared with the one documented for the condition (``state=`` for one of Spark's own), and the text
    must be a user's: with no Python traceback and no bridge in it.
    """
    from pyspark.errors import PySparkException

    documented = json.loads(CONDITIONS.read_text(encoding="utf-8"))

    @contextmanager
    def expect(condition: str, *words: str, state: str | None = None) -> Iterator[Raised]:
        raised = Raised()
        with pytest.raises(PySparkException) as caught:
            yield raised
        raised.error, raised.text = caught.value, str(caught.value)
        assert caught.value.getCondition() == condition, raised.text
        expected = state or documented.get(condition, {}).get("sqlState")
        if expected is not None:
            assert caught.value.getSqlState() == expected, raised.text
        assert_for_users(raised.text)
        for word in words:
            assert word in raised.text, f"{word!r} is not in: {raised.text}"

    return expect


def assert_for_users(text: str) -> None:
    """An error's text has no Python traceback, no frame of the bridge and no unfilled placeholder in it."""
    for word in ("py4j", "Py4J", "Traceback", 'File "', "org.apache.spark.SparkException: Job aborted"):
        assert word not in text, text


@pytest.fixture
def log() -> Callable[[str | Path, int], list[dict[str, Any]]]:
    """``log(path, version)``: the actions of a commit."""

    def read(path: str | Path, version: int) -> list[dict[str, Any]]:
        commit = Path(path) / "_delta_log" / f"{version:020d}.json"
        return [json.loads(line) for line in commit.read_bytes().split(b"\n") if line]

    return read


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of tables other systems wrote; tests that need it are skipped where it is not there."""
    if not (SHARED / "tables" / "expected.json").is_file():
        pytest.skip(f"the shared tables are not at {SHARED / 'tables'}")
    return SHARED
