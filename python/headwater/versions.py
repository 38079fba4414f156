"""What has to fit together: the Spark versions this release runs on, and the JAR with the package.

Owns the list of Spark versions, the rule which versions it stands for, and the version of the bridge. The builds of the
JAR ask this file for :func:`build_properties` and put them into the JAR (``headwater/build.properties``), so that the
JVM decides neither by itself; a test holds ``pyproject.toml`` to the list. Promise: standard library only at import, so
that build tools may load this file by its path, or run it: it prints the properties.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

SUPPORTED_SPARK = ("4.2.0", "4.2.1", "4.3.0")
"""Every Spark version the JAR is built for and tested with, oldest first."""

#: A vendor's or build suffix (``4.2.0-amzn-1``, ``4.2.0.2``) does not count. Python and Java read both patterns alike.
_TESTED_PATTERN = f"({'|'.join(map(re.escape, SUPPORTED_SPARK))})([-.].*)?"
_LINES = dict.fromkeys(version.rpartition(".")[0] for version in SUPPORTED_SPARK)
_SUPPORTED_PATTERN = rf"({'|'.join(map(re.escape, _LINES))})\.[0-9]+([-.].*)?"

_PACKAGE = Path(__file__).resolve().parent
#: What names things of the other side of the bridge: a JAR and a package with different ones misunderstand each other.
_BRIDGE_SOURCES = ("bridge/messages/*.py", "bridge/statement.py", "bridge/hadoop_files.py", "pruning/predicates.py")


def is_supported(version: str) -> bool:
    """Whether this release runs on ``version``: one of the tested ones, or, with a warning, a later patch of its line.

    A vendor's or build suffix (``4.2.0-amzn-1``) does not count.
    """
    return re.fullmatch(_SUPPORTED_PATTERN, version) is not None


def is_tested(version: str) -> bool:
    """Whether ``version`` is one of :data:`SUPPORTED_SPARK`; on others that are supported, the JVM logs a warning."""
    return re.fullmatch(_TESTED_PATTERN, version) is not None


def require_supported(version: str) -> None:
    """Raise ``HEADWATER_UNSUPPORTED_SPARK_VERSION`` unless ``version`` is a Spark this release runs on."""
    if not is_supported(version):
        from headwater.errors import HeadwaterError

        raise HeadwaterError("HEADWATER_UNSUPPORTED_SPARK_VERSION", {"version": version, "supported": _listed()})


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


def build_properties() -> str:
    """The content of ``headwater/build.properties`` in the JAR: a Java properties file."""
    values = {
        "spark.supported": _listed(),
        "spark.pattern": _SUPPORTED_PATTERN,
        "spark.tested.pattern": _TESTED_PATTERN,
        "bridge.version": bridge_version(),
    }
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in values.items())


def _listed() -> str:
    return ", ".join(SUPPORTED_SPARK)


if __name__ == "__main__":
    print(build_properties(), end="")
