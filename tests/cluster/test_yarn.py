"""YARN, with tables in HDFS: a program whose driver is outside of the cluster, and one whose driver is a container.

Long, as a cluster and several JVMs start one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.cli import launch
from support import submitted
from support.packed import packed_environment
from support.sparks.running import Sparks
from support.yarn import yarn

pytestmark = [pytest.mark.spark, pytest.mark.soak]

SETTINGS = {
    "spark.yarn.jars": f"local:{launch.spark_home()}/jars/*",
    "spark.yarn.am.memory": "600m",
    "spark.driver.memory": "900m",
    "spark.executor.memory": "700m",
    "spark.executor.instances": "2",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with yarn(tmp_path_factory.mktemp("yarn")) as conf:
        yield conf


@pytest.fixture
def sparks(tmp_path: Path) -> Iterator[Sparks]:
    started = Sparks(tmp_path)
    yield started
    started.stop()


@pytest.mark.parametrize("where", ["client", "cluster"])
def test_a_program_is_submitted(
    hadoop: Path, sparks: Sparks, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the cluster, the driver's Python is that of an archive, and the JAR comes with the program."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop))
    answers = tmp_path / "answers"
    arguments = ["--master", "yarn", "--deploy-mode", where]
    settings = {**SETTINGS, "spark.jars": headwater.jar_path()}
    if where == "cluster":
        arguments += ["--archives", f"{packed_environment(tmp_path)}#environment"]
        settings["spark.headwater.python"] = "./environment/bin/python"
        settings["spark.yarn.appMasterEnv.PYSPARK_PYTHON"] = "./environment/bin/python"
    table = f"/tables/{where}"
    application: Any = sparks.shell("spark-submit", [*arguments, submitted.__file__, table, str(answers)], settings)
    assert application.process.wait(400) == 0, application.log[-3000:]
    assert answers.read_text().splitlines() == submitted.ANSWERS
