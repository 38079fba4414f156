"""Python packages that only some tests need, each in a folder of its own that is no part of this environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support.paths import ROOT

_INSTALL_SECONDS = 900


def fetched_packages(name: str, *requirements: str) -> Path:
    """The folder that has them, without what they depend on; fetched once and kept below ``target`` by that name."""
    there = ROOT / "target" / name
    if not there.is_dir():
        there.parent.mkdir(exist_ok=True)
        coming = Path(tempfile.mkdtemp(dir=there.parent))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(coming)]
        subprocess.run([*command, *requirements], check=True, timeout=_INSTALL_SECONDS, stdin=subprocess.DEVNULL)
        try:
            coming.rename(there)
        except OSError:  # another process fetched them meanwhile
            shutil.rmtree(coming)
    return there
