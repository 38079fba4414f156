"""``headwater doctor``: each check says what it found and what to do, also where nothing is there."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.basics import versions
from headwater.cli import doctor, launch
from headwater.cli import main as cli
from support.commits import add_file, commit, create
from support.paths import TESTS


def of(check, path=None):
    """What a check finds: (state, found, advice) of each."""
    found = list(getattr(doctor, f"_{check}")(*([] if path is None else [path])))
    return [(finding.state, finding.found, finding.advice) for finding in found]


def states(check, path=None):
    return [state for state, _, _ in of(check, path)]


def test_where_everything_is_missing(tmp_path):
    """A Python alone: no package, no Java, no Spark, no table."""
    command = [sys.executable, "-S", "-m", "headwater", "doctor", str(tmp_path / "none"), "--json"]
    bare = {"PATH": str(tmp_path), "PYTHONPATH": str(TESTS.parent / "python")}
    ended = subprocess.run(command, env=bare, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (1, "")
    found = json.loads(ended.stdout)
    wrong = {finding["check"] for finding in found["findings"] if finding["state"] == "wrong"}
    assert wrong >= {"packages", "Java", "Spark", "handler", "path"}
    assert all(finding["advice"] for finding in found["findings"] if finding["state"] == "wrong")
    assert found["ok"] is False
    command[5:] = ["history", "x"]
    ended = subprocess.run([*command[:4], "history", "x"], env=bare, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "headwater doctor" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_all_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_java", lambda: iter([doctor.Finding("Java", doctor.OK, "17")]))
    result = CliRunner().invoke(cli.app, ["doctor", str(tmp_path), "--json"], catch_exceptions=False)
    found = json.loads(result.stdout)
    by_check = {finding["check"]: finding["state"] for finding in found["findings"]}
    assert (result.exit_code, found["ok"]) == (0, True), found
    assert by_check["handler"] == by_check["store"] == "ok"
    assert by_check["Python"] == ("note" if sys.version_info[:2] in doctor.ENDING_PYTHONS else "ok")
    assert by_check["table"] == "note"
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(doctor, "_java", lambda: 1 / 0)
    monkeypatch.setattr(doctor, "_handler", lambda: iter(()))
    result = CliRunner().invoke(cli.app, ["doctor"])
    assert result.exit_code == 1
    assert "wrong   Java: the check failed" in result.stdout


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder like Spark's, of which there is nothing but names."""
    home = tmp_path / "spark"
    for name in ("jars", "bin", "conf"):
        (home / name).mkdir(parents=True)
    (home / "jars/spark-core_2.13-4.2.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    return home


@pytest.mark.parametrize(
    ("version", "state", "advice"),
    [
        ((3, 10), "note", "ends with Headwater 1.1, not before 2027-06-01"),
        ((3, 13), "ok", ""),
        ((3, 99), "warning", "tested with 3.10 to 3.13"),
    ],
)
def test_python(version, state, advice, monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (*version, 0))
    ((found, _, said),) = of("python")
    assert (found, advice in (said or "")) == (state, True)


def test_spark(home):
    assert states("spark") == ["ok"]
    (home / "jars/delta-spark_2.13-4.0.0.jar").touch()
    (home / "jars/headwater.jar").touch()
    assert states("spark") == ["ok", "wrong", "note"]
    (home / "jars/spark-core_2.13-4.2.0.jar").rename(home / "jars/spark-core_2.13-3.5.9.jar")
    assert states("spark")[0] == "wrong"
    (home / "jars/spark-core_2.13-3.5.9.jar").unlink()
    assert states("spark") == ["wrong"]


EXTENSION = f"spark.sql.extensions a.B,{launch.EXTENSION}\n"
CATALOG = f"spark.sql.catalog.spark_catalog {launch.DELTA_CATALOG}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["note"]),
        (EXTENSION, ["wrong"]),
        (EXTENSION + CATALOG, ["ok"]),
        (EXTENSION + CATALOG + "spark.jars /none/headwater.jar,/none/other.jar\n", ["ok", "wrong"]),
        (EXTENSION + CATALOG + "spark.jars.packages io.delta:delta-spark_2.13:4.0.0\n", ["ok", "wrong"]),
    ],
)
def test_settings(home, text, expected):
    (home / "conf/spark-defaults.conf").write_text(text)
    assert states("settings") == expected


def test_arguments_that_leave_the_jar_out(home, monkeypatch):
    (home / "conf/spark-defaults.conf").write_text(EXTENSION + CATALOG)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars /none/other.jar pyspark-shell")
    (_, (state, found, advice)) = of("settings")
    assert (state, "/none/other.jar" in found) == ("wrong", True)
    assert advice.startswith("Add it there: --jars /none/other.jar,")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", advice.removeprefix("Add it there: ") + " pyspark-shell")
    assert states("settings") == ["ok"]


def test_settings_that_are_no_text(home):
    (home / "conf/spark-defaults.conf").write_bytes(b"\xff\xfe")
    assert states("settings") == ["wrong"]
    (home / "conf/spark-defaults.conf").write_text("spark.headwater.python /none/python\n")
    ((state, found, _),) = of("handler")
    assert (state, "/none/python does not start" in found) == ("wrong", True)


JAVAS = {'"1.8.0_402"': "wrong", '"11.0.2"': "wrong", '"17.0.9"': "ok", '"21"': "ok", '"25"': "warning", "?": "wrong"}


@pytest.mark.parametrize(("says", "state"), JAVAS.items())
def test_java(tmp_path, monkeypatch, says, state):
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin/java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version {says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert states("java") == [state]
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert states("java") == ["wrong"]


def test_jar(home, tmp_path, monkeypatch):
    package = tmp_path / "site-packages/headwater"
    (package / "jars").mkdir(parents=True)
    monkeypatch.setattr(doctor, "_PACKAGE", package)
    jar = package / "jars/headwater.jar"
    assert states("jar") == ["wrong"]
    jar.write_bytes(b"no archive")
    assert states("jar") == ["wrong"]
    for bridge, state in (("0.0.1+old", "wrong"), (versions.bridge_version(), "ok")):
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr("headwater/build.properties", f"bridge.version={bridge}\n")
        assert states("jar") == [state]


def test_packages():
    assert doctor._package("pyarrow", ">=20") is None
    assert "does not fit" in doctor._package("pyarrow", ">=20,<21").found
    assert "missing" in doctor._package("no-such-package", ">=1").found
    for version, bounds in (("4.2.1", ">=4.1.0,<4.4"), ("0.30", ">=0.3"), ("2", ">=2.0.0"), ("3.1", "!=3.0")):
        assert doctor._fits(version, bounds), version
    for version in ("4.4", "4.4.0", "5.0", "4.0.9"):
        assert not doctor._fits(version, ">=4.1.0,<4.4"), version


def test_stores(tmp_path, monkeypatch):
    log = tmp_path / "t/_delta_log"
    log.mkdir(parents=True)
    assert states("local", str(log.parent)) == states("local", f"{tmp_path}/a/b/c") == ["ok"]
    monkeypatch.setattr(doctor, "_file_system", lambda path: "fuse.s3fs")
    assert states("local", str(log.parent)) == ["warning"]
    monkeypatch.setattr(doctor, "_file_system", lambda path: "ext4")

    def no_links(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", no_links)
        assert states("local", str(log.parent)) == ["ok"]
        patched.setattr("headwater.stores.local.rename_unless_taken", no_links)
        assert states("local", str(log.parent)) == ["wrong"]
    with monkeypatch.context() as patched:
        patched.setattr(
            "headwater.stores.LocalStore.put_if_absent", lambda self, path, data: Path(path).write_bytes(data)
        )
        assert states("local", str(log.parent)) == ["wrong"]
    assert list(log.iterdir()) == []
    (tmp_path / "file").touch()
    assert states("local", str(tmp_path / "file")) == ["wrong"]
    if os.getuid():
        log.chmod(stat.S_IRUSR | stat.S_IXUSR)
        assert states("local", str(log.parent)) == ["warning"]
        log.chmod(stat.S_IRWXU)


def test_stores_of_spark(home):
    (home / "jars/hadoop-client-api-3.5.0.jar").touch()
    assert [found[0] for found in doctor_remote("gs")] == ["warning"]
    assert [found[0] for found in doctor_remote("hdfs")] == ["ok"]
    assert [found[0] for found in doctor_remote("s3a")] == ["ok", "note"]
    assert "hadoop-aws:3.5.0" in doctor_remote("s3a")[1][2]
    (home / "jars/hadoop-aws-3.5.0.jar").touch()
    assert [found[0] for found in doctor_remote("s3a")] == ["ok", "ok"]


def doctor_remote(scheme):
    return [(found.state, found.found, found.advice) for found in doctor._remote(scheme)]


def test_clocks(tmp_path, monkeypatch):
    assert states("clock") == ["ok"]
    now = doctor.clock.milliseconds()
    monkeypatch.setattr(doctor.clock, "milliseconds", lambda: now - 3_600_000)
    assert states("clock") == ["warning"]
    monkeypatch.setattr(doctor.clock, "milliseconds", lambda: 0)
    assert states("clock") == ["wrong"]


def test_files_that_are_missing(tmp_path, monkeypatch):
    def found():
        return [(each.state, each.found, each.advice) for each in doctor._table(str(path)) if each.check == "files"]

    path = tmp_path / "t"
    create(str(path))
    commit(path, add_file("a"), add_file("b"))
    (path / "a").touch()
    ((state, text, advice),) = found()
    assert (state, text) == ("wrong", f"missing: 1 file, such as {path}/b")
    assert "FSCK REPAIR TABLE" in advice
    (path / "b").touch()
    assert found() == [("ok", "all files of the newest version are there", None)]
    monkeypatch.setattr(doctor, "_MOST_FILES", 1)
    assert found() == []


def test_a_damaged_table(tmp_path):
    log = tmp_path / "t/_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("no json\n")
    ((state, found, _),) = of("table", str(log.parent))
    assert (state, "DELTA_INVALID_COMMIT" in found) == ("wrong", True)
