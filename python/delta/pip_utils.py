"""The session of a program that installed the package with pip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

_PACKAGES_KEY = "spark.jars.packages"

_Builder = TypeVar("_Builder", bound=Any)


def configure_spark_with_delta_pip(
    spark_session_builder: _Builder, extra_packages: Sequence[str] | None = None
) -> _Builder:
    """Make the sessions of a ``SparkSession.builder`` work with Delta tables: :func:`headwater.configure`.

    The builder may name extension and catalog by Delta Lake's names or Headwater's, before the call or after it.

    :param extra_packages: Maven coordinates of more packages, for ``spark.jars.packages``; Headwater itself needs none.
    :returns: the same builder.
    :raises TypeError: the builder itself is missing.
    :raises headwater.basics.errors.HeadwaterError: as :func:`headwater.configure`.
    """
    from headwater.cli import launch

    if not hasattr(spark_session_builder, "getOrCreate"):
        raise TypeError(
            "configure_spark_with_delta_pip needs a SparkSession.builder, before getOrCreate() is called, "
            f"not {type(spark_session_builder).__name__}."
        )
    launch.configure(spark_session_builder, delta_names=True)
    if extra_packages:
        packages = spark_session_builder._options.get(_PACKAGES_KEY)
        for package in extra_packages:
            packages = launch.append_item(packages, package)
        spark_session_builder.config(_PACKAGES_KEY, packages)
    return spark_session_builder
