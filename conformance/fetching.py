"""What engines need that is no package of Python; fetched once, kept below ``target``."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_TRINO = "476"
_FETCH_SECONDS = 900
#: The connector, and plugins whose folders have the files that the archive has once for several.
_PLUGINS = ("delta-lake", "bigquery", "cassandra", "clickhouse")


def connector(artifacts: Sequence[str]) -> Sequence[Path]:
    """The JARs of these artifacts of Maven, without what they depend on."""
    there = _ROOT / "target" / f"conformance-{artifacts[0].replace(':', '-')}"
    if not there.is_dir():
        there.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=there.parent) as folder:
            for artifact in artifacts:
                _copy(artifact, Path(folder) / "jars")
            (Path(folder) / "jars").rename(there)
    return sorted(there.glob("*.jar"))


def _copy(artifact: str, folder: Path) -> None:
    subprocess.run(
        [
            *("mvn", "--batch-mode", "--quiet", "dependency:copy", f"-DoutputDirectory={folder}"),
            f"-Dartifact={artifact}",
        ],
        check=True,
        timeout=_FETCH_SECONDS,
        stdin=subprocess.DEVNULL,
    )


def trino_server() -> Path:
    """The folder of Trino's server with the one plugin that the board needs (Maven's archive has 820 MB)."""
    there = _ROOT / "target" / f"conformance-trino-{_TRINO}"
    if there.is_dir():
        return there
    there.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=there.parent) as folder:
        _copy(f"io.trino:trino-server:{_TRINO}:tar.gz", Path(folder))
        top = f"trino-server-{_TRINO}"
        wanted = [f"{top}/lib/*", *(f"{top}/plugin/{name}/*" for name in _PLUGINS)]
        archive = Path(folder) / f"{top}.tar.gz"
        subprocess.run(
            ["tar", "xzf", archive, "-C", folder, "--wildcards", *wanted], check=True, timeout=_FETCH_SECONDS
        )
        for name in _PLUGINS[1:]:
            shutil.rmtree(Path(folder) / top / "plugin" / name)
        (Path(folder) / top).rename(there)
    return there
