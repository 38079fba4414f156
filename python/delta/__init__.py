"""Headwater under the names of Delta Lake's Python package.

Promise: it never runs beside ``delta-spark``, which owns the same package: the files of the two would be mixed.
"""

from __future__ import annotations

from importlib import metadata


def _refuse_beside_delta_spark() -> None:
    """Raise an ImportError if ``delta-spark`` is installed as well, with what to do."""
    try:
        other = metadata.version("delta-spark")
    except metadata.PackageNotFoundError:
        return
    raise ImportError(
        f"headwater-delta and delta-spark {other} are both installed, and both own the package 'delta'. "
        "Keep one. For Headwater: pip uninstall delta-spark headwater-delta, then pip install 'headwater[delta]'."
    )


_refuse_beside_delta_spark()

from delta.pip_utils import configure_spark_with_delta_pip  # noqa: E402 - after the check
from delta.tables import DeltaTable  # noqa: E402

__all__ = ["DeltaTable", "configure_spark_with_delta_pip"]
