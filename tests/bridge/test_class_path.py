"""A shell that cannot start with the JARs that it has: one message that says which and what to do, and no stack."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.cli import launch

pytestmark = pytest.mark.spark

_PROPERTIES = "headwater/build.properties"


def _of_another_line(home: Path) -> str:
    """Headwater's JAR, but for what it says of the Sparks that it is for; the launcher adds the right one to it."""
    made = home / "headwater-4.1.jar"
    with zipfile.ZipFile(launch.jar_path()) as own, zipfile.ZipFile(made, "w") as other:
        for entry in own.namelist():
            content = own.read(entry)
            if entry == _PROPERTIES:
                lines = content.decode().splitlines()
                content = "\n".join(_for_4_1(line) if line.startswith("spark.") else line for line in lines).encode()
            other.writestr(entry, content)
    return str(made)


def _for_4_1(line: str) -> str:
    return line.replace("4.2", "4.1").replace("4\\\\.2", "4\\\\.1")


def _of_delta_lake(home: Path) -> str:
    """As much of Delta Lake's own connector as it takes to see that it is there."""
    made = home / "delta-spark_2.13-4.0.0.jar"
    with zipfile.ZipFile(made, "w") as jar:
        jar.writestr("org/apache/spark/sql/delta/DeltaLog.class", b"")
    return str(made)


def _the_same(home: Path) -> str:
    """The same build twice, which is not refused."""
    return str(shutil.copy(launch.jar_path(), home / "again.jar"))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("jar", "says"),
    [
        (_of_another_line, "[HEADWATER_TWO_JARS]"),
        (_of_delta_lake, "[HEADWATER_BESIDE_DELTA_LAKE]"),
        (_the_same, None),
    ],
)
def test_a_shell_with_another_jar(sparks: Any, tmp_path: Path, jar: Callable[[Path], str], says: str | None) -> None:
    made = jar(tmp_path)
    shell = sparks.shell("spark-sql", ["--jars", made, "-e", "SELECT 1"])
    assert (shell.process.wait(180) == 0) is (says is None), shell.log[-3000:]
    if says is not None:
        _check(shell, says, made)


def test_a_shell_with_the_jar_of_another_line(sparks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It alone, as somebody has it who has replaced the Spark beside it."""
    made = _of_another_line(tmp_path)
    monkeypatch.setattr(launch, "jar_path", lambda: Path(made))
    shell = sparks.shell("spark-sql", ["-e", "SELECT 1"])
    assert shell.process.wait(180) != 0
    _check(shell, "[HEADWATER_JAR_OF_OTHER_SPARK]", "headwater jar")


def _check(shell: Any, *words: str) -> None:
    """The shell's log has these words, in one message without the calls that led there."""
    for word in words:
        assert word in shell.log
    assert shell.log.count("SQLSTATE") == 1, shell.log
    assert "\tat " not in shell.log
