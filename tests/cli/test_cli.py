"""The command line: what it prints, what it runs, how it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headwater
from headwater.cli import launch
from headwater.cli import main as cli


def test_version() -> None:
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.output.strip()) == (0, f"headwater {headwater.__version__}")


def test_jar_prints_an_existing_path() -> None:
    result = CliRunner().invoke(cli.app, ["jar"])
    assert result.exit_code == 0
    assert Path(result.stdout.strip()).is_file()


@pytest.mark.parametrize("shell", ["spark-sql", "pyspark"])
def test_shell_replaces_the_process(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(launch, "jar_path", lambda: Path("/headwater.jar"))
    monkeypatch.setattr(os, "execve", lambda path, arguments, environment: calls.append((path, arguments)))
    CliRunner().invoke(cli.app, [shell, "--help", "-e", "SELECT 1", "--conf", "a=b", "--verbose"])
    ((path, arguments),) = calls
    assert Path(path).name == shell
    assert arguments[-6:] == ["--help", "-e", "SELECT 1", "--conf", "a=b", "--verbose"]


@pytest.mark.parametrize("server", ["thrift-server", "connect-server"])
def test_server_replaces_the_process(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(launch, "jar_path", lambda: Path("/headwater.jar"))
    monkeypatch.setattr(os, "execve", lambda path, arguments, environment: calls.append((path, arguments)))
    CliRunner().invoke(cli.app, [server, "--master", "local[1]", "--hiveconf", "a=b", "--verbose"])
    ((path, arguments),) = calls
    assert Path(path).name == "spark-submit"
    assert " --master local[1] --hiveconf a=b --verbose" in " ".join(arguments)


@pytest.mark.parametrize("server", ["thrift-server", "connect-server"])
def test_help_of_a_server_names_its_arguments(server: str) -> None:
    shown = CliRunner().invoke(cli.app, [server, "--help"])
    assert shown.exit_code == 0
    for words in ("127.0.0.1", "--master", "port"):
        assert words in shown.output


def test_failure_is_one_message(tmp_path: Path) -> None:
    environment = {**os.environ, "SPARK_HOME": str(tmp_path), "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.9.jar").touch()
    command = [sys.executable, "-c", "from headwater.cli.main import main; main()", "spark-sql"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "3.5.9" in result.stderr
    assert "Traceback" not in result.stderr
