"""DuckDB in a process of its own: a reader of Delta's logs, by delta-kernel-rs, and of Iceberg's metadata.

Its extensions come from the package index, for one version of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.fetched_packages import fetched_packages
from support.processes import environment

_VERSION = "1.5.5"
_EXTENSIONS = ("avro", "iceberg", "delta")
_PACKAGES = ("duckdb", *(f"duckdb-extension-{name}" for name in _EXTENSIONS))
_READ_SECONDS = 120


def read(function: str, path: Path | str) -> list[Any]:
    """The rows of a table in a folder, plain and sorted, by ``delta_scan`` or ``iceberg_scan``."""
    packages = fetched_packages(f"test-duckdb-{_VERSION}", *(f"{package}=={_VERSION}" for package in _PACKAGES))
    given = environment()
    env = {**given, "PYTHONPATH": os.pathsep.join([str(packages), given["PYTHONPATH"]])}
    extensions = [
        str(packages / f"duckdb_extension_{e}/extensions/v{_VERSION}/{e}.duckdb_extension") for e in _EXTENSIONS
    ]
    command = [sys.executable, "-m", "support.duckdb_reader.reading", function, str(path), *extensions]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_READ_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found
