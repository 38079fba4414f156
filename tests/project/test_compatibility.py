"""The page of compatibility says what the code does: supported versions, what is announced, how long it stays."""

from __future__ import annotations

import re
import sys
from itertools import groupby

from packaging.version import Version

from headwater import __version__
from headwater.basics.versions import SUPPORTED_SPARK
from headwater.cli import doctor
from support.paths import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

PAGE = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def _row(begins: str) -> list[str]:
    """The cells of the first row of a table that begins so."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {begins}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_supported_versions_are_those_of_the_code() -> None:
    major, minor = Version(__version__).release[:2]
    _, sparks, pythons, javas, until = _row(f"{major}.{minor} ")
    lines = [list(line) for _, line in groupby(SUPPORTED_SPARK, lambda version: version.rpartition(".")[0])]
    shown = [f"{line[0]} to {line[-1]}" if len(line) > 2 else ", ".join(line) for line in lines]
    assert sparks == ", ".join(shown)
    assert pythons.startswith(f"3.10 to {'.'.join(map(str, doctor._NEWEST_PYTHON))}")
    assert PROJECT["requires-python"] == ">=3.10"
    assert re.search(r"\d{4}-\d\d-\d\d", until)
    assert javas == ", ".join(map(str, doctor._JAVAS))
    classified = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python :: 3." in each]
    assert classified == ["3.10", "3.11", "3.12", f"{'.'.join(map(str, doctor._NEWEST_PYTHON))}"]


def test_what_is_announced_warns_with_its_date_and_ends_in_time() -> None:
    announced = {
        tuple(map(int, name.split("."))): (release, date)
        for name, release, date in re.findall(
            r"^\| Python ([\d.]+) \| Headwater ([\d.]+), ([\d-]+) \|", PAGE, re.MULTILINE
        )
    }
    assert announced == doctor.ENDING_PYTHONS
    late = [f"Python {name}" for name, (release, _) in announced.items() if Version(__version__) >= Version(release)]
    assert not late, f"{late} was to end with this version: drop it, or announce a later one"


def test_the_page_names_the_version_that_the_wheel_has_of_others() -> None:
    """What is not ours has its licence in the wheel, in its version on the page."""
    (version,) = re.findall(
        r"uPlot \(v([\d.]+)\)", (ROOT / "python/headwater/inspector/page/uPlot.js").read_text("utf-8")
    )
    assert f"[uPlot](https://github.com/leeoniya/uPlot) {version}" in PAGE.replace("\n", " ")
    assert "python/headwater/inspector/page/uPlot.LICENSE.txt" in PROJECT["license-files"]


def test_each_folder_that_we_keep_beside_a_table_has_its_promise() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "python" / "headwater").rglob("*.py"))
    written = set(re.findall(r"\b(_headwater/[a-z]+|_headwater_upsert)\b", sources))
    assert {"_headwater/hooks", "_headwater_upsert"} <= written
    promised = set(re.findall(r"^\| .*?`(_headwater\S*?)/`", PAGE, re.MULTILINE))
    assert written == promised
