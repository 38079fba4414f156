"""An environment of Python as venv-pack packs one, with the package in it."""

from __future__ import annotations

import shutil
import site
import tarfile
import venv
from pathlib import Path

from support.paths import SOURCES


def packed_environment(home: Path) -> Path:
    """Its archive, in ``home``."""
    venv.create(home / "environment", with_pip=False, symlinks=True)
    (packages,) = (home / "environment" / "lib").glob("python*/site-packages")
    (packages / "own.pth").write_text("\n".join([str(SOURCES), *site.getsitepackages()]), encoding="utf-8")
    packed = home / "environment.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(home / "environment", arcname=".")
    shutil.rmtree(home / "environment")
    return packed
