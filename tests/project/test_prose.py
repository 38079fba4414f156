"""Habits of prose that a reader stumbles over, which a pattern can find: the documents and the texts of errors are free
of them, and the package's comments and strings of some. CONTRIBUTING says how to write; this holds what once had to be
corrected in many places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from support.documents import pages
from support.paths import ROOT


class Habit(NamedTuple):
    """A pattern, which ignores case; what to write instead; words in which it is found."""

    pattern: str
    instead: str
    example: str


_UNITS = (
    r"rows?|files?|paths?|lines?|bytes|calls?|text|commits?|tasks?|tables?|keys?|versions?|columns?|batch|statements?"
    r"|process|threads?|query|words?|ideas?|class|sentences?"
)
_DOES = r"adds?|asks?|calls?|comes?|gives?|has|holds?|knows?|makes?|marks?|needs?|reads?|removes?|runs?|wants?|writes?"

HABITS = [
    Habit(rf"\bone ({_UNITS}) an? \w+", "one row per key", "One row a key is stored."),
    Habit(
        r"\b(rows?|lines?|bytes|calls|text) an? (commit|file|key|partition|row|statement|table)\b",
        "bytes per file",
        "It reads 40 bytes a row.",
    ),
    Habit(r",\stoo[,.:;)]", "also, as well, even", "Streams, too, are checked."),
    Habit(r"\bas of after\b", "as of the version after", "It reads the table as of after the commit."),
    Habit(r"(?<!there )\b(is|are|was|were) none\b(?! of)|\bof none\b", "is not one", "A path that is none is refused."),
    Habit(
        rf"(?<=\| )who ({_DOES})\b|(?<=[.;:] )who ({_DOES})\b(?! what)|\b(for|to|by|than|so|that) who(ever)? \w+s\b",
        "a writer that adds files, callers that ask",
        "It is refused for writing: who reads it finds all rows.",
    ),
    Habit(r"\banew\b", "again", "The statement runs anew."),
    Habit(r"\b(is|are|was|were|be) (to be )?had\b(?! \w+ed)", "is available", "The metrics are had from Spark."),
    Habit(r"\bupkeep\b", "post-commit maintenance", "The upkeep of a table runs in the background."),
    Habit(
        r"\bbehind (each|every|the|its|that|this) (commit|insert|merge|statement|write)s?\b",
        "after",
        "Maintenance runs behind each commit.",
    ),
    Habit(r"\bcomes? to (the same|nothing|an? )", "results in, amounts to", "Both come to the same."),
    Habit(r"\b(and|are|crash|do|does|failure|has|is) neither\.", "not even", "After a crash neither."),
    Habit(r"\b(that|those) of (one|that|those|what|which)\b", "name the thing", "Its rows and those of what it reads."),
    Habit(
        r"\bwhere (it|one|they|that|there) (are|is|was|were) no(ne)? \w+,", "if", "Where there is no folder, it fails."
    ),
    Habit(r"\bstarted again,", "after a restart", "Started again, the query resumes."),
    Habit(r"\ball the same[,.]", "anyway", "It is read all the same."),
    Habit(r"\bin turns\b", "in turn, alternating", "They are measured in turns."),
    Habit(r"\b(null|none|empty) where\b", "null if", "The value is null where nobody set it."),
]
#: Those that the sources of the package are free of as well.
IN_SOURCES = [
    habit
    for habit in HABITS
    if habit.instead
    in ("also, as well, even", "as of the version after", "again", "is available", "anyway", "in turn, alternating")
]


def _texts() -> Iterator[tuple[str, str]]:
    """The name and the words of each text that a user or a contributor reads, without its code."""
    for page in [*(ROOT / name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")), *pages()]:
        words = re.sub(r"^( *)```.*?^\1```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        yield page.relative_to(ROOT).as_posix(), re.sub(r"`[^`\n]*`", "`x`", words)
    for name, condition in json.loads((ROOT / "conf/error-conditions.json").read_text("utf-8")).items():
        yield name, " ".join(condition.get("message", ()))
    yield from json.loads((ROOT / ".ci/property-meanings.json").read_text("utf-8")).items()


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.instead)
def test_no_text_has_a_habit(habit: Habit) -> None:
    found = re.compile(habit.pattern, re.IGNORECASE)
    assert found.search(habit.example), "the pattern finds nothing"
    lines = [
        f"{name}: …{text[max(0, match.start() - 30) : match.end() + 20]}… write: {habit.instead}"
        for name, text in _texts()
        for match in found.finditer(text)
    ]
    assert not lines


@pytest.mark.parametrize("habit", IN_SOURCES, ids=lambda habit: habit.instead)
def test_no_source_has_some_habits(habit: Habit) -> None:
    found = re.compile(habit.pattern, re.IGNORECASE)
    lines = [
        f"{path.relative_to(ROOT).as_posix()}: {match[0]}, write: {habit.instead}"
        for path in sorted((ROOT / "python/headwater").rglob("*.py"))
        for match in found.finditer(path.read_text("utf-8"))
    ]
    assert not lines
