"""What the tests read in README and in the pages of ``docs``: blocks of code, and what their comments promise.

A comment that begins with a number is a promise. ``-- 2 rows`` on a line above a query is how many rows it has, above a
DELETE, UPDATE or MERGE how many it changed; ``-- 3`` is the one value of a query, ``# 3`` (``// 3`` in Scala) at the
end of a line its value. In the blocks nothing is changed but the folder ``/tmp``, which belongs to all.

Blocks under tabs are of one language each; what stands outside of tabs belongs to each of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

from support.paths import ROOT

README = ROOT / "README.md"
LANGUAGES = ("sql", "python", "scala")
_FENCED = re.compile(r"^( *)```(sql|python|scala)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_END = re.compile(r";\s*$")
_PROMISE = re.compile(r"--\s*(\d+)( rows?)?\b")
#: A line of Python or Scala, and the number it promises.
PYTHON_PROMISE = re.compile(r"^(\S.*?)  # (\d+)$", re.MULTILINE)
SCALA_PROMISE = re.compile(r"^(\S.*?) // (\d+)$", re.MULTILINE)
_CHANGES = ("DELETE", "UPDATE", "MERGE")


class Block(NamedTuple):
    """A block of code. ``tab``: whether it stands under one, where other languages have their own."""

    language: str
    text: str
    tab: bool


@dataclass(frozen=True)
class Sql:
    """A statement, what a comment above it promises, and its lines as a reader types them, comments among them."""

    text: str
    promised: int | None
    rows: bool
    typed: tuple[str, ...] = ()

    @property
    def counts_changes(self) -> bool:
        return self.rows and self.text.lstrip().startswith(_CHANGES)

    def check(self, found: list[list[str]]) -> None:
        """``found``: the rows it gave."""
        if self.promised is None:
            return
        told = len(found) if self.rows and not self.counts_changes else int(found[0][0])
        assert told == self.promised, f"{self.text}\ngave {found}, the document says {self.promised}"


def pages() -> list[Path]:
    """README and the pages of ``docs``."""
    return [README, *sorted((ROOT / "docs").rglob("*.md"))]


def sentences(page: Path) -> list[str]:
    """A page's sentences, each on one line; a row of a table is one."""
    return [
        " ".join(sentence.split())
        for paragraph in re.split(r"\n\n|\n(?=[-|])", page.read_text("utf-8"))
        for sentence in re.split(r"(?<=\.)\s", paragraph)
    ]


def blocks(page: Path, home: Path) -> list[Block]:
    """A page's blocks in their order; their files lie in ``home``."""
    text = page.read_text(encoding="utf-8").replace("/tmp/", f"{home}/")
    return [Block(kind, dedent(code), bool(indent)) for indent, kind, code in _FENCED.findall(text)]


def variants(found: list[Block]) -> dict[str, list[Block]]:
    """What there is to run of a page, by the language whose tabs it takes; under one name where there are no tabs."""
    tabs = [language for language in LANGUAGES if any(block.tab and block.language == language for block in found)]
    return {
        language: [block for block in found if not block.tab or block.language == language]
        for language in tabs or LANGUAGES[:1]
    }


def statements(block: str) -> list[Sql]:
    """The statements of a block of SQL."""
    found: list[Sql] = []
    lines: list[str] = []
    typed: list[str] = []
    promise = None
    for line in block.splitlines():
        typed.append(line)
        if line.startswith("--"):
            promise = promise or _PROMISE.match(line)
        elif line.strip():
            lines.append(line)
        if end := _END.search(line):
            text = "\n".join([*lines[:-1], line[: end.start()]])
            promised = int(promise.group(1)) if promise else None
            found.append(Sql(text, promised, bool(promise and promise.group(2)), tuple(typed)))
            lines, typed, promise = [], [], None
    assert not lines, f"a block's last statement has no end: {lines}"
    return found


def indented(starts_with: str) -> str:
    """The indented block of README or a page that starts so; blank lines in it are part of it."""
    texts = [page.read_text(encoding="utf-8") for page in pages()]
    parts = [part for text in texts for part in re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)]
    found = {block.lstrip("\n") for block in map(dedent, parts) if block.strip().startswith(starts_with)}
    assert len(found) == 1, f"{len(found)} different blocks begin with {starts_with!r}"
    return found.pop()
