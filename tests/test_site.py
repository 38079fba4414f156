"""The documentation site's pages that come from code are whole; mkdocs itself, and all links, are checked by CI."""

from __future__ import annotations

import json
import runpy

from support.paths import TESTS

ROOT = TESTS.parent
SITE = runpy.run_path(str(ROOT / ".ci" / "site.py"))


def test_every_table_property_has_a_meaning() -> None:
    assert SITE["properties_without_meaning"]() == set()
    assert "| ? |" not in SITE["properties_page"]()


def test_every_error_condition_is_described_with_its_cause() -> None:
    page = SITE["errors_page"]()
    conditions = json.loads((ROOT / "conf" / "error-conditions.json").read_text("utf-8"))
    assert [name for name in conditions if f"### {name} {{ #" not in page] == []
    assert "## Others" not in page, "a class of SQLSTATE has no heading in .ci/site.py"


def test_what_to_do_is_told_from_what_happened() -> None:
    split = SITE["cause_and_cure"]
    assert split("It is gone. Use another one. It lasts.") == ("It is gone.", "Use another one. It lasts.")
    assert split("It is gone.") == ("It is gone.", "")


def test_links_between_root_pages_lead_to_the_sites_pages() -> None:
    text = SITE["root_page"]("ARCHITECTURE.md")
    assert "(contributing.md)" in text
    assert "CONTRIBUTING.md)" not in text
