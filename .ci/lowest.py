"""Print pip constraints that hold every dependency of ``pyproject.toml`` at the lowest version it allows."""

from __future__ import annotations

from pathlib import Path

import tomllib
from packaging.requirements import Requirement


def lowest(requirements: list[str]) -> dict[str, str]:
    """The version after ``>=`` of each requirement that has one."""
    found: dict[str, str] = {}
    for text in requirements:
        requirement = Requirement(text)
        for specifier in requirement.specifier:
            if specifier.operator == ">=":
                found[requirement.name] = specifier.version
    return found


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    # Pipelines need a newer Spark than the rest, and nothing else that the others do not.
    declared = [*project["dependencies"], *extras["spark"], *extras["test"], *extras["connect"], *extras["demo"]]
    for name, version in lowest(declared).items():
        print(f"{name}=={version}")
