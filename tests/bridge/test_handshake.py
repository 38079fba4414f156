"""A JAR and a package of different builds do not start to work together. No JVM: the test speaks its side."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.basics.versions import bridge_version
from headwater.bridge.process import misfit
from headwater.cli.launch import jar_path

PACKAGE = Path(__file__).resolve().parents[2] / "python"


def test_the_version_that_the_jar_was_built_with_fits() -> None:
    assert misfit({"bridge": bridge_version(), "jar": "/j/headwater.jar"}) is None


@pytest.mark.parametrize(
    ("sent", "shown"), [({"bridge": "0.0.9+abc"}, "0.0.9+abc"), ({"bridge": ""}, "an older one"), ({}, "an older one")]
)
def test_another_version_is_an_error_that_names_both(sent: dict[str, str], shown: str) -> None:
    error = misfit({**sent, "jar": "/j/headwater.jar"})
    assert error is not None
    assert (error["condition"], error["sqlState"]) == ("HEADWATER_JAR_DOES_NOT_FIT", "58000")
    assert error["parameters"]["jarVersion"] == shown
    for words in ("/j/headwater.jar", shown, bridge_version(), "spark.headwater.python"):
        assert words in error["text"]


def shake_hands(settings: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run the handler, send it one line, and close its input, as a JVM that dies then would."""
    return subprocess.run(
        [sys.executable, "-m", "headwater.handler"],
        input=json.dumps(settings) + "\n",
        cwd=PACKAGE,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_handler_refuses_and_ends() -> None:
    ended = shake_hands({"token": "t0ken", "bridge": "0.0.9+abc", "jar": "/j/headwater.jar"})
    assert ended.returncode == 1
    answer = json.loads(ended.stdout)
    assert answer.keys() == {"error"}
    assert answer["error"]["condition"] == "HEADWATER_JAR_DOES_NOT_FIT"
    # A JVM that does not know of such an answer shows the last line of the log.
    assert ended.stderr.splitlines()[-1] == f"HEADWATER_JAR_DOES_NOT_FIT: {answer['error']['text']}"
    assert "Traceback" not in ended.stderr
    assert "t0ken" not in ended.stdout + ended.stderr


def test_an_operator_sees_the_stacks_and_changes_the_level_of_the_log() -> None:
    settings = {"token": "t0ken", "bridge": bridge_version()}
    with subprocess.Popen(
        [sys.executable, "-m", "headwater.handler"],
        cwd=PACKAGE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as handler:
        assert handler.stdin
        assert handler.stdout
        assert handler.stderr
        handler.stdin.write(json.dumps(settings) + "\n")
        handler.stdin.flush()
        assert "port" in json.loads(handler.stdout.readline())
        for number, words in (
            (signal.SIGUSR1, "process.py"),
            (signal.SIGUSR2, "WARNING headwater the level of this log is now DEBUG"),
            (signal.SIGUSR2, "WARNING headwater the level of this log is now WARNING"),
        ):
            handler.send_signal(number)
            assert any(words in line for line in iter(handler.stderr.readline, ""))
        handler.stdin.close()
        assert handler.wait(30) == 0


def test_the_handler_serves_a_jar_that_fits() -> None:
    ended = shake_hands({"token": "t0ken", "bridge": bridge_version()})
    assert (ended.returncode, json.loads(ended.stdout).keys()) == (0, {"port"})


def test_the_advice_is_a_command_that_prints_a_jar() -> None:
    error = misfit({})
    assert error is not None
    printed = subprocess.run(
        error["parameters"]["command"], shell=True, cwd=PACKAGE, capture_output=True, text=True, timeout=300
    )
    assert printed.returncode == 0, printed.stderr
    assert Path(printed.stdout.strip()) == jar_path()
