"""Which versions match: the Sparks that this release runs on, and the JAR with Spark and with the package.

Owns the list of Spark versions, the JAR that is for each, the rule which versions a list stands for, and the version of
the bridge. The builds of a JAR ask this file for :func:`build_properties` and put them into it
(``headwater/build.properties``), so that the JVM decides none of it; a test holds ``pyproject.toml`` to the list.
Promise: standard library only at import, so that build tools may load this file by its path, or run it: it prints the
properties of the newest JAR.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Build(NamedTuple):
    """A JAR, and the Sparks that it is for. Sparks of one build have one source of each of its shims.

    :param jar: the JAR's name.
    :param shims: the folders of ``jvm/shims`` that it has beside what all have.
    :param sparks: every Spark version that it is tested with, oldest first.
    """

    jar: str
    shims: tuple[str, ...]
    sparks: tuple[str, ...]


SPARK_4_0 = ("4.0.0", "4.0.1", "4.0.2", "4.0.3", "4.0.4", "4.0.5")
SPARK_4_1 = ("4.1.0", "4.1.1", "4.1.2", "4.1.3", "4.1.4")
SPARK_4_2 = ("4.2.0", "4.2.1", "4.3.0")
BUILDS = (
    Build("headwater-4.0.jar", ("until-4.1", "spark-4.0"), SPARK_4_0),
    Build("headwater-4.1.jar", ("until-4.1", "since-4.1"), SPARK_4_1),
    Build("headwater.jar", ("since-4.1", "spark-4.2"), SPARK_4_2),
)
"""The JARs of this release, that for the oldest Sparks first."""

SUPPORTED_SPARK = tuple(version for build in BUILDS for version in build.sparks)
"""Every Spark version this release is tested with, oldest first."""

_PACKAGE = Path(__file__).resolve().parents[1]
#: What names things of the other side of the bridge: a JAR and a package with different ones misunderstand each other.
_BRIDGE_SOURCES = ("bridge/messages/*.py", "bridge/statement.py", "bridge/hadoop_files.py", "pruning/predicates.py")


def is_supported(version: str) -> bool:
    """Whether this release runs on ``version``: one of the tested ones, or, with a warning, a later patch of its line.

    A vendor's or build suffix (``4.2.0-amzn-1``) does not count.
    """
    return build_for(version) is not None


def is_tested(version: str) -> bool:
    """Whether ``version`` is one of :data:`SUPPORTED_SPARK`; on others that are supported, the JVM logs a warning."""
    return re.fullmatch(_tested(SUPPORTED_SPARK), version) is not None


def build_for(version: str) -> Build | None:
    """The build that runs on a Spark version; None if none does."""
    return next((build for build in BUILDS if re.fullmatch(_supported(build.sparks), version)), None)


# A vendor's or build suffix (``4.2.0-amzn-1``, ``4.2.0.2``) does not count. Python and Java read both patterns alike.


def _tested(sparks: Sequence[str]) -> str:
    return f"({'|'.join(map(re.escape, sparks))})([-.].*)?"


def _supported(sparks: Sequence[str]) -> str:
    lines = dict.fromkeys(version.rpartition(".")[0] for version in sparks)
    return rf"({'|'.join(map(re.escape, lines))})\.[0-9]+([-.].*)?"


def delta_jar(jar: Path) -> Path:
    """The JAR of Delta Lake's names, which lies beside each of ours."""
    return jar.with_name(f"{jar.stem}-delta.jar")


def spark_version(jars: Path) -> str | None:
    """The version of the Spark that a ``jars`` folder is of, from its files' names; None if they do not show it."""
    names = [path.stem for path in jars.glob("spark-core_*.jar")]
    return names[0].partition("-")[2].partition("-")[2] if len(names) == 1 else None


def require_supported(version: str) -> None:
    """Raise ``HEADWATER_UNSUPPORTED_SPARK_VERSION`` unless ``version`` is a Spark this release runs on."""
    if not is_supported(version):
        from headwater.basics.errors import HeadwaterError

        raise HeadwaterError(
            "HEADWATER_UNSUPPORTED_SPARK_VERSION", {"version": version, "supported": ", ".join(SUPPORTED_SPARK)}
        )


def bridge_version() -> str:
    """The package's version and a hash of what it declares to the JVM: equal where a JAR and a package fit together."""
    digest = hashlib.sha256()
    for pattern in _BRIDGE_SOURCES:
        for path in sorted(_PACKAGE.glob(pattern)):
            # A checkout on another system may end its lines differently.
            content = path.read_bytes().replace(b"\r\n", b"\n")
            digest.update(f"{path.relative_to(_PACKAGE).as_posix()}\0{len(content)}\0".encode() + content)
    release = re.search(r'__version__ = "([^"]+)"', (_PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    return f"{release[1] if release else 'unknown'}+{digest.hexdigest()[:12]}"


def build_properties(build: Build = BUILDS[-1]) -> str:
    """The content of ``headwater/build.properties`` in a JAR: a Java properties file."""
    values = {
        "jar": build.jar,
        "spark.supported": ", ".join(build.sparks),
        "spark.pattern": _supported(build.sparks),
        "spark.tested.pattern": _tested(build.sparks),
        "release.spark.supported": ", ".join(SUPPORTED_SPARK),
        "release.spark.pattern": _supported(SUPPORTED_SPARK),
        "bridge.version": bridge_version(),
    }
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in values.items())


if __name__ == "__main__":
    print(build_properties(), end="")
