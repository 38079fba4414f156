"""ARCHITECTURE.md is true: its index of the protocol's chapters is current, and the files it names exist."""

from __future__ import annotations

import re
import runpy

from support.paths import TESTS

ROOT = TESTS.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
CHAPTERS = runpy.run_path(str(ROOT / ".ci" / "chapters.py"))


def test_the_index_of_chapters_is_current() -> None:
    assert CHAPTERS["updated"](TEXT) == TEXT, "run python .ci/chapters.py"


def test_every_chapter_that_a_docstring_follows_is_in_the_index() -> None:
    """Chapters are named in quotes; no citation may be spelled so that the index misses it."""
    cited = re.compile(r"protocol's\s+chapters?\s+(?!of the features)(\S)")
    odd = [
        str(file.relative_to(ROOT))
        for file in (ROOT / "python").rglob("*.py")
        for first in cited.findall(file.read_text("utf-8"))
        if first != '"'
    ]
    assert odd == []


def test_the_files_and_names_in_it_exist() -> None:
    files = [path for folder in ("python", "jvm", "tests", "conf") for path in (ROOT / folder).rglob("*.*")]
    sources = [
        path for path in files if path.suffix in {".py", ".scala", ".json"} and path.name != "test_architecture.py"
    ]
    paths = {f"/{path.relative_to(ROOT).as_posix()}" for path in sources}
    words = {word for path in sources for word in re.findall(r"\w+", path.read_text("utf-8"))}
    quoted = [text for text in re.findall(r"`([^`\n]+)`", TEXT) if re.fullmatch(r"[\w./]+", text)]
    assert [
        text for text in quoted if text.endswith(".py") and not any(path.endswith(f"/{text}") for path in paths)
    ] == []
    assert [text for text in quoted if "/" not in text and not set(re.findall(r"[A-Za-z_]\w+", text)) <= words] == []
