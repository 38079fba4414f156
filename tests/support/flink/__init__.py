"""Apache Flink as a reader of changelogs: an environment of its own, and a table that it materializes from events.

Owns the environment, which PyPI gives once (about 850 MB) and which stays in the system's temporary directory, and the
JAR of Flink's connector of Kafka, which Maven fetches (``connector.xml``). Flink runs ``materializing.py`` there, in a
process that ends with its answer.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.jvms import fetched

_VERSION = "2.3.0"
_HOME = Path(__file__).parent
_INSTALL_SECONDS = 1200
_RUN_SECONDS = 900


def environment() -> Path:
    """The Python that has Flink."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    there = Path(tempfile.gettempdir()) / f"headwater-flink-{_VERSION}-python{python}-{os.getuid()}"
    if not there.is_dir():
        coming = Path(tempfile.mkdtemp(dir=there.parent))
        for command in (
            [sys.executable, "-m", "venv", coming],
            [coming / "bin" / "python", "-m", "pip", "install", "--quiet", f"apache-flink=={_VERSION}"],
        ):
            subprocess.run(command, check=True, timeout=_INSTALL_SECONDS, stdin=subprocess.DEVNULL)
        try:
            coming.rename(there)
        except OSError:  # another process made it meanwhile
            shutil.rmtree(coming)
    return there / "bin" / "python"


def connector_jars() -> list[Path]:
    """The JARs that make Flink read topics."""
    return fetched(_HOME / "connector.xml")


def materialized(
    columns: str, source: Mapping[str, str], select: str = "*", jars: list[Path] | None = None
) -> tuple[list[list[Any]], dict[str, int]]:
    """The rows of the table that Flink makes of Debezium's events, in no order, and how many rows of each kind
    (``+I``, ``-U``, ``+U``, ``-D``) it saw.

    :param columns: the table's columns as Flink's SQL declares them.
    :param source: the options of Flink's connector.
    :param select: what to read of each row; values that JSON lacks have to be cast.
    :raises AssertionError: Flink failed, or took a row away that was not there.
    """
    options = {**source, "format": "debezium-json"}
    job = {"columns": columns, "options": options, "select": select, "jars": [jar.as_uri() for jar in jars or []]}
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [environment(), _HOME / "materializing.py"],
            input=json.dumps(job), cwd=home, text=True, capture_output=True, timeout=_RUN_SECONDS, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    return answer["rows"], answer["kinds"]
