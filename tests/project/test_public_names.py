"""Public names do not vanish or change unnoticed: they are those of the list that ``.ci/public_names.py`` writes."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import headwater
from support.paths import ROOT

_NAMES = runpy.run_path(str(ROOT / ".ci" / "public_names.py"))
_LIST: Path = _NAMES["LIST"]
_PROMISE = """\
The public names differ from {list}.
{lines}
Version {version} promises (docs/compatibility.md): within a major version, a public name stays and keeps its meaning.
A name that is to go is deprecated first, with a warning and a date. Undo a line that vanished or changed by mistake.
If it is meant (a new name, a new optional parameter, a default that tunes), run python .ci/public_names.py, and say in
CHANGELOG.md what changes for users."""


def difference(before: str, after: str) -> str:
    """What a reader of a failed test sees of the lines; empty if nothing differs."""
    old, new = _lines(before), _lines(after)
    return "\n".join(
        [*(f"- {line}" for line in old if line not in set(new)), *(f"+ {line}" for line in new if line not in set(old))]
    )


def _lines(text: str) -> list[str]:
    """Each line with its heading: the same name may stand under two."""
    found, heading = [], ""
    for line in text.splitlines():
        if line.startswith("["):
            heading = line
        elif line and not line.startswith("#"):
            found.append(f"{heading} {line}")
    return found


def test_public_names_are_those_of_the_list() -> None:
    differs = difference(_LIST.read_text("utf-8"), _NAMES["text"]())
    if differs:
        name = _LIST.relative_to(ROOT)
        pytest.fail(_PROMISE.format(list=name, lines=differs, version=headwater.__version__), pytrace=False)


def test_the_list_has_what_users_write() -> None:
    """What each section is read from has not become empty or another."""
    known = set(_lines(_LIST.read_text("utf-8")))
    for line in (
        "[Python] headwater.configure(builder)",
        "[Python] headwater.tables.DeltaTable.delete(self, condition=None)",
        "[Python] headwater.hooks.Commit.metrics",
        "[Settings] spark.headwater.dml.retrySeconds = 600",
        "[Table properties] delta.appendOnly = false",
        "[Options] mergeSchema",
        "[Error conditions] DELTA_CONCURRENT_APPEND 2D521",
        "[Table functions] table_changes_by_path",
        "[Command] headwater files --where VALUE",
        "[Keys of the command's JSON] files: files[].size",
        "[Metrics] lostRaces",
        "[Metrics] calls",
        "[Scala and Java] headwater.spark.HeadwaterExtension",
        "[Scala and Java] io.delta.tables.DeltaTable",
    ):
        assert line in known


def test_the_keys_of_each_command_with_json_are_in_the_list() -> None:
    lines = _lines(_LIST.read_text("utf-8"))
    commands = {line.split()[2] for line in lines if re.fullmatch(r"\[Command\] headwater \w+ --json", line)}
    assert len(commands) > 5
    assert commands - {line.split("JSON] ")[1].split(":")[0] for line in lines if " JSON] " in line} == set()


def test_what_vanished_changed_and_came_is_shown() -> None:
    before, after = "# x\n[A]\na\nb(x)\n[B]\nb(x)\n", "# y\n[A]\nb(x, y=1)\n[B]\nb(x)\nc\n"
    assert difference(before, after).splitlines() == ["- [A] a", "- [A] b(x)", "+ [A] b(x, y=1)", "+ [B] c"]
    assert difference(before, before) == ""
