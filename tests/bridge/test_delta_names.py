"""Delta Lake's own names of classes: settings, and programs in Scala and Java, that have them run unchanged."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import headwater
from support.programs import PRINTED, SETTINGS, compile_programs
from support.sparks.running import Sparks, is_alive, wait_for

pytestmark = pytest.mark.spark


def test_programs_in_scala_and_java(sparks: Sparks, tmp_path: Path) -> None:
    programs = compile_programs([headwater.jar_path(), headwater.delta_jar_path()], tmp_path)
    arguments = ["--class", "ScalaProgram", str(programs), str(tmp_path)]
    application: Any = sparks.shell("spark-submit", arguments, SETTINGS)
    handler = application.handler
    # The bridge's threads keep neither the JVM whose main method has ended nor the handler.
    assert application.process.wait(240) == 0, application.log[-3000:]
    wait_for(lambda: not is_alive(handler), 60, "the handler's end")
    assert [line for line in application.output.splitlines() if ": " in line] == PRINTED


@pytest.mark.soak  # the usual run has the programs with our own JARs
def test_the_same_programs_compile_against_delta_lakes_own_connector(tmp_path: Path) -> None:
    peer = Path(__file__).parents[3] / "shared" / "peer" / "fetch"
    if not peer.exists():
        pytest.skip(f"its JARs are listed by {peer}, which is not there")
    jars = subprocess.run([peer], capture_output=True, text=True, check=True).stdout.strip().split(",")
    compile_programs(jars, tmp_path)
