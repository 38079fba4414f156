"""Wheel and source distribution install where there is no index: all that they need is in one folder."""

from __future__ import annotations

import email
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.message import Message
from pathlib import Path

import pyspark
import pytest

import headwater
from support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(3600)]


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, cwd=cwd)
    assert ended.returncode == 0, f"{ended.stdout[-3000:]}\n{ended.stderr[-5000:]}"
    return ended.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions and what they need, to run and to build."""
    folder = tmp_path_factory.mktemp("distributions")
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    # Not "download": PySpark has no wheel on an index. The source distribution needs it, and hatchling, to be built.
    wanted = (_only(folder, "*.whl"), "hatchling", f"pyspark=={pyspark.__version__}")
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", folder, *wanted)
    return folder


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(f"headwater-{pattern}")
    return found


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_it_installs_without_an_index(pattern: str, folder: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "new", with_pip=True)
    programs = tmp_path / "new" / "bin"
    given = ("--quiet", "--no-index", "--find-links", folder)
    _run(programs / "pip", "install", *given, _only(folder, pattern))
    printed = _run(programs / "headwater", "jar", cwd=tmp_path).strip()
    assert Path(printed).is_file()
    assert Path(printed).is_relative_to(tmp_path / "new")
    assert headwater.__version__ in _run(programs / "headwater", "--version", cwd=tmp_path)


def test_both_say_the_same_of_themselves(folder: Path) -> None:
    with zipfile.ZipFile(_only(folder, "*.whl")) as wheel:
        built = wheel.read(f"headwater-{headwater.__version__}.dist-info/METADATA")
        names = wheel.namelist()
    with tarfile.open(_only(folder, "*.tar.gz")) as archive:
        file = archive.extractfile(f"headwater-{headwater.__version__}/PKG-INFO")
        assert file is not None
        source = file.read()
        sources = {name.partition("/")[2] for name in archive.getnames()}
    said: Message = email.message_from_bytes(built)
    assert said.items() == email.message_from_bytes(source).items()
    assert said["Description-Content-Type"] == "text/markdown"
    assert str(said.get_payload()).strip().startswith("# Headwater")
    assert said["License-Expression"] == "Apache-2.0"
    assert {"LICENSE", "hatch_build.py", "conf/error-conditions.json", "jvm/build.py"} <= sources
    assert {"headwater/jars/headwater.jar", "headwater/jars/headwater-delta.jar", "headwater/py.typed"} <= set(names)
    assert not [name for name in (*names, *sources) if "__pycache__" in name or name.startswith((".venv", "target/"))]
