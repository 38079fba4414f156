"""The supported Spark versions are named in one place, and the package asks for exactly those."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from headwater.errors import HeadwaterError
from headwater.versions import SUPPORTED_SPARK, is_supported, require_supported

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "requirements",
    [
        _PROJECT["build-system"]["requires"],
        _PROJECT["project"]["dependencies"],
        _PROJECT["project"]["optional-dependencies"]["connect"],
        _PROJECT["project"]["optional-dependencies"]["pipelines"],
    ],
)
def test_package_requires_exactly_the_supported_versions(requirements: list[str]) -> None:
    (spark,) = [found for found in map(Requirement, requirements) if found.name == "pyspark"]
    assert all(spark.specifier.contains(version) for version in SUPPORTED_SPARK)
    assert not any(spark.specifier.contains(other) for other in ("4.1.4", "4.3.1", "4.4.0", "5.0.0"))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("4.2.0", True),
        ("4.2.1", True),
        ("4.2.1-vendor-3", True),
        ("4.2.0.2", True),
        ("4.2.0-", True),
        ("4x2.0", False),
        ("14.2.0", False),
        ("4.2.10", False),
        ("4.1.0", False),
        ("4.3.0", True),
        ("4.4.0", False),
    ],
)
def test_is_supported(version: str, expected: bool) -> None:
    assert is_supported(version) is expected


def test_unsupported_version_names_the_supported_ones() -> None:
    with pytest.raises(HeadwaterError, match=r"4\.2\.0, 4\.2\.1, 4\.3\.0, not with 4\.4\.0"):
        require_supported("4.4.0")
