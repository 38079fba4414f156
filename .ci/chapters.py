"""Writes the index of PROTOCOL.md's chapters into ARCHITECTURE.md, from the docstrings that name them.

``python .ci/chapters.py`` after a docstring or a module has changed; a test fails while the index is old. A docstring
names them as ``the protocol's chapters "Checkpoints" and "V2 Spec"`` or ``(chapter "Derived Fields")``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "ARCHITECTURE.md"
PACKAGE = ROOT / "python" / "headwater"
_BEGIN, _END = "<!-- chapters: .ci/chapters.py -->\n", "<!-- end of chapters -->"
_CITED = re.compile(r'(?:protocol(?:\'s)? |\()chapters? ("[^"]+"(?:(?:,| and|, and) "[^"]+")*)')


def _chapters(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            for cited in _CITED.findall(" ".join((ast.get_docstring(node) or "").split())):
                yield from re.findall(r'"([^"]+)"', cited)


def index() -> str:
    """The table, a line a chapter."""
    modules: dict[str, list[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        for chapter in sorted(set(_chapters(file.read_text("utf-8")))):
            modules.setdefault(chapter, []).append(f"`{file.relative_to(PACKAGE).as_posix()}`")
    rows = [f"| {chapter} | {', '.join(found)} |\n" for chapter, found in sorted(modules.items(), key=_by_name)]
    return "".join(["| chapter | modules |\n", "| --- | --- |\n", *rows])


def _by_name(row: tuple[str, list[str]]) -> str:
    return row[0].lower()


def updated(document: str) -> str:
    """The document with today's index in it."""
    before, _, rest = document.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"{DOCUMENT.name} has no place for the index")
    return f"{before}{_BEGIN}\n{index()}\n{end}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text("utf-8")), "utf-8")
