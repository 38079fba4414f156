"""The Spark versions this release runs on: the one place that names them.

Owns the list and the check against it. The JAR build copies the list into the JAR (``headwater/build.properties``), sbt
reads it from here, and a test holds ``pyproject.toml`` to it. Promise: standard library only at import, so that build
tools may load this file by its path.
"""

from __future__ import annotations

SUPPORTED_SPARK = ("4.2.0", "4.2.1", "4.3.0")
"""Every Spark version the JAR is built for and tested with, oldest first."""


def is_supported(version: str) -> bool:
    """Whether ``version`` is supported; a vendor's or build suffix (``4.2.0-amzn-1``) does not count."""
    return any(version == known or version.startswith((f"{known}-", f"{known}.")) for known in SUPPORTED_SPARK)


def require_supported(version: str) -> None:
    """Raise ``HEADWATER_UNSUPPORTED_SPARK_VERSION`` unless ``version`` is a Spark this release runs on."""
    if not is_supported(version):
        from headwater.errors import HeadwaterError

        raise HeadwaterError(
            "HEADWATER_UNSUPPORTED_SPARK_VERSION", {"version": version, "supported": ", ".join(SUPPORTED_SPARK)}
        )
