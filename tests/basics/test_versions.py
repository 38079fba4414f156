"""The supported Spark versions are named in one place, and the package asks for their lines."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import headwater
from headwater.basics.errors import HeadwaterError
from headwater.basics.versions import BUILDS, SUPPORTED_SPARK, build_for, is_supported, is_tested, require_supported

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

_PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "requirements",
    [
        _PROJECT["build-system"]["requires"],
        _PROJECT["project"]["optional-dependencies"]["spark"],
        _PROJECT["project"]["optional-dependencies"]["connect"],
        _PROJECT["project"]["optional-dependencies"]["pipelines"],
    ],
)
def test_an_installed_spark_that_works_is_not_replaced(requirements: list[str]) -> None:
    (spark,) = [found for found in map(Requirement, requirements) if found.name == "pyspark"]
    for version in (
        *SUPPORTED_SPARK,
        "4.1.9",
        "4.2.2",
        "4.2.10",
        "4.3.1",
        "4.0.9",
        "3.5.9",
        "4.4.0",
        "4.4.0.dev1",
        "5.0.0",
    ):
        # Spark 4.0 has no pipelines.
        works = is_supported(version) and not ("pipelines" in spark.extras and version.startswith("4.0."))
        assert spark.specifier.contains(version, prereleases=True) is works, version


@pytest.mark.parametrize(
    ("version", "supported", "tested"),
    [
        ("4.2.0", True, True),
        ("4.2.1", True, True),
        ("4.2.1-vendor-3", True, True),
        ("4.2.0.2", True, True),
        ("4.2.0-", True, True),
        ("4.3.0", True, True),
        ("4.2.2", True, False),
        ("4.2.10", True, False),
        ("4.3.1-vendor-3", True, False),
        ("4.2.", False, False),
        ("4.2.x", False, False),
        ("4x2.0", False, False),
        ("14.2.0", False, False),
        ("4.20.0", False, False),
        ("4.1.0", True, True),
        ("4.1.9", True, False),
        ("4.0.0", True, True),
        ("4.0.9", True, False),
        ("3.5.9", False, False),
        ("4.4.0", False, False),
    ],
)
def test_is_supported(version: str, supported: bool, tested: bool) -> None:
    assert (is_supported(version), is_tested(version)) == (supported, tested)


def test_each_spark_has_one_jar() -> None:
    jars = {
        version: build_for(version)
        for version in ("4.0.0", "4.0.5", "4.1.0", "4.1.4-vendor", "4.2.0", "4.3.1", "3.5.9", "4.4.0")
    }
    assert {version: build and build.jar for version, build in jars.items()} == {
        **dict.fromkeys(("4.0.0", "4.0.5"), "headwater-4.0.jar"),
        **dict.fromkeys(("4.1.0", "4.1.4-vendor"), "headwater-4.1.jar"),
        **dict.fromkeys(("4.2.0", "4.3.1"), "headwater.jar"),
        **dict.fromkeys(("3.5.9", "4.4.0")),
    }
    for build in BUILDS:
        assert all((Path(__file__).parents[2] / "jvm" / "shims" / folder).is_dir() for folder in build.shims)


def test_an_older_python_is_refused_by_name() -> None:
    """The interpreter that Spark finds may be older than the package: its syntax must let it read so far."""
    source = Path(headwater.__file__).read_text(encoding="utf-8")
    assert _PROJECT["project"]["requires-python"] == ">=3.10"
    ast.parse(source, feature_version=(3, 7))
    old = f"import sys; sys.version_info = (3, 9, 2, 'final', 0); exec({source!r}, {{'__name__': 'headwater'}})"
    ended = subprocess.run([sys.executable, "-c", old], capture_output=True, text=True, check=False)
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: headwater needs Python 3.10 or newer, and {sys.executable} is 3.9.")


def test_unsupported_version_names_the_supported_ones() -> None:
    with pytest.raises(HeadwaterError, match=r"4\.2\.0, 4\.2\.1, 4\.3\.0, not with 4\.4\.0"):
        require_supported("4.4.0")
