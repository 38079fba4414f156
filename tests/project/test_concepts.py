"""Pages of concepts have one shape, and what they and the page on readers refer to exists: bench cases, sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench.__main__ import cases

from support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(page for page in (DOCS / "concepts").glob("*.md") if page.name != "index.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_shape_of_all(page: Path) -> None:
    text = page.read_text("utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert text.startswith("---\nsearch:\n  boost: "), "search shows a page of concepts before a mention of its word"
    assert (headings[0], headings[-1]) == ("Example", "See also")
    wanted = ["Who can read", "What", "Turn|Set"]
    found = [next((n for n, each in enumerate(headings) if re.match(f"(?:{one})\\b.*", each)), None) for one in wanted]
    assert None not in found, headings
    assert any(re.fullmatch("What (it|they) costs?", each) for each in headings), headings
    assert any(re.match("When|Which|What changes", each) for each in headings[1:]), headings
    assert "```sql" in text[text.index("## Example") :]
    assert re.search(r"\]\(\.\./statements/", text), "no link to a statement"


def test_every_page_is_on_the_page_of_all() -> None:
    index = (DOCS / "concepts" / "index.md").read_text("utf-8")
    assert [page.name for page in PAGES if f"({page.name})" not in index] == []


def test_bench_cases_that_pages_name_exist() -> None:
    """Costs are given by cases with a limit, and where a page has a limit, it is the case's."""
    known = {case.name: case for case in cases()}
    names = set()
    for page in PAGES:
        text = page.read_text("utf-8")
        for listed in re.findall(r"\b[Cc]ases?\s+([^.]*?)\s(?:is|are)\s+among\b", text):
            names |= set(re.findall(r"`([\w-]+)`", listed))
        for limit, listed in re.findall(r"(\d\.\d\d) \(((?:`[\w-]+`(?:, )?)+)\)", text):
            for name in re.findall(r"`([\w-]+)`", listed):
                assert known[name].against[0].ratio == float(limit), name
                names.add(name)
    assert len(names) > 15
    assert names <= set(known)


def test_every_source_of_the_readers_is_listed() -> None:
    text = (DOCS / "readers.md").read_text("utf-8")
    numbers = set(re.findall(r"\[(\d+)\]\(#sources\)", text))
    listed = set(re.findall(r"^(\d+)\. .*", text[text.index("## Sources") :], re.MULTILINE))
    assert numbers == listed
    for test in re.findall(r"`((?:tests/)[\w/]+(?:\.py)?)`", text):
        assert (ROOT / test).exists(), test
