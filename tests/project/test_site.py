"""The documentation site's pages that come from code are whole; mkdocs itself, and all links, are checked by CI."""

from __future__ import annotations

import json
import re
import runpy

from headwater import __version__
from headwater.statements.registry import CALLS
from support.paths import TESTS

ROOT = TESTS.parent
DOCS = ROOT / "docs"
SITE = runpy.run_path(str(ROOT / ".ci" / "site.py"))


def test_every_table_property_has_a_meaning() -> None:
    assert SITE["properties_without_meaning"]() == set()
    assert "| ? |" not in SITE["properties_page"]()


def test_every_error_condition_is_described_with_its_cause() -> None:
    """On the page of its class, which the list of all and the tables of other pages lead to."""
    pages = SITE["errors_pages"]()
    conditions = json.loads((ROOT / "conf" / "error-conditions.json").read_text("utf-8"))
    headings = {page: re.findall(r"^## ([A-Z]\S+) \{ #(\S+) \}$", text, re.MULTILINE) for page, text in pages.items()}
    described = {name: (page, anchor) for page, found in headings.items() for name, anchor in found}
    assert described.keys() == conditions.keys()
    for name, (page, anchor) in described.items():
        assert f"- [<code>{name}</code>]({page}#{anchor}){{ #{anchor} }}\n" in pages["errors.md"].replace("<wbr>", "")
        assert f"({page}#{anchor})" in SITE["errors_table"](name, "")
    assert {
        conditions[name]["sqlState"][:2] for name, (page, _) in described.items() if page == "errors/conflicts.md"
    } == {"2D"}


def test_links_to_conditions_lead_to_their_descriptions() -> None:
    filled = SITE["filled"]
    link = "[`DELTA_CONCURRENT_APPEND`](../errors.md#delta_concurrent_append)"
    assert filled(link, "guides/x.md") == link.replace("errors.md", "errors/conflicts.md")
    assert filled("[conflicts](errors.md#class-2d)", "x.md") == "[conflicts](errors.md#class-2d)"


def test_every_error_condition_says_what_to_do() -> None:
    messages = {
        name: " ".join(condition["message"])
        for name, condition in SITE["conditions"]().items()
        if "message" in condition
    }
    assert [name for name, message in messages.items() if not SITE["cause_and_cure"](message)[1]] == []


def test_what_to_do_is_told_from_what_happened() -> None:
    split = SITE["cause_and_cure"]
    assert split("It is gone. Use another one. It lasts.") == ("It is gone.", "Use another one. It lasts.")
    assert split("It is gone.") == ("It is gone.", "")


def test_marks_name_what_exists() -> None:
    """The pages' answers and errors come from the code; every statement of ours with an answer has a page with it."""
    texts = {page.relative_to(DOCS).as_posix(): page.read_text("utf-8") for page in DOCS.rglob("*.md")}
    for name, text in texts.items():
        if "<!-- bench" not in text:
            assert "<!-- answer" not in SITE["filled"](text, name), name
    answered = set(re.findall(r"<!-- answer: (\w+) -->", "".join(texts.values())))
    answers = {name for name, call in CALLS.items() if call.output}
    # Their answers are those of OPTIMIZE, of REFRESH INDEX, and of the same statement without DRY RUN.
    assert answered == answers - {"reorg", "upgrade_uniform", "create_index", "maintain_table_dry_run"}


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert [page.name for page in DOCS.rglob("*.md") if f" {page.relative_to(DOCS).as_posix()}\n" not in menu] == []


def test_the_changelog_has_a_section_of_this_version() -> None:
    sections = re.findall(r"^## \[(.*?)\](?: - (.*))?$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert sections[0] == ("Unreleased", "")
    assert sections[1][0] == __version__


def test_workflows_use_what_exists() -> None:
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE))
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = file.read_text("utf-8")
        for named in re.findall(r"\.\[([\w,]+)\]", text):
            assert set(named.split(",")) <= extras, file.name
        assert all((ROOT / path).exists() for path in re.findall(r"(?<![\w/])\.ci/\w+(?:\.py)?", text)), file.name


def test_roles_of_docstrings_are_names() -> None:
    shown = SITE["without_roles"](":class:<code>~a.b.C</code>, :meth:<code>D.e</code>")
    assert shown == "<code>C</code>, <code>D.e</code>"


def test_a_warning_of_the_site_fails_ci() -> None:
    """With ``--quiet``, MkDocs logs no warnings and so counts none: ``--strict`` never fails."""
    files = [ROOT / ".ci" / "run", *(ROOT / ".github" / "workflows").glob("*.yml")]
    builds = [build for file in files for build in re.findall(r"mkdocs build[^#\n]*", file.read_text("utf-8"))]
    assert len(builds) >= 2
    assert [build for build in builds if "--strict" not in build or re.search(r"\s-\w*q|--quiet", build)] == []


def test_private_names_of_signatures_are_found() -> None:
    html = (
        '<span title="headwater._Builder">_Builder</span> <span title="headwater.tables.DeltaTable">DeltaTable</span>'
    )
    assert SITE["private_names"](html) == ["headwater._Builder"]
    assert SITE["private_names"]("<code>_row_kind</code>") == []


def test_long_names_break_where_columns_are_narrow() -> None:
    breakable = SITE["breakable"]
    cell = '<td><a href="#spark.headwater.python"><code>spark.headwater.python</code></a></td>'
    broken = '<td><a href="#spark.headwater.python"><code>spark.<wbr>headwater.<wbr>python</code></a></td>'
    assert breakable(cell) == broken
    assert breakable("<h3>DELTA_FILE_NOT_FOUND</h3>") == "<h3>DELTA_<wbr>FILE_<wbr>NOT_<wbr>FOUND</h3>"
    assert breakable("<td>changeDataFeedColumns</td>") == "<td>change<wbr>Data<wbr>Feed<wbr>Columns</td>"
    for kept in ("<td>see a.b. Then c.</td>", "<p>spark.headwater.python</p>", "<pre>spark.headwater.python</pre>"):
        assert breakable(kept) == kept


def test_rows_of_lists_of_names_know_their_headings() -> None:
    head = "<thead><tr><th>setting</th><th>default</th></tr></thead>"
    table = f"<table>{head}<tbody><tr><td>a</td><td>1</td></tr><tr><td>b</td><td></td></tr></tbody></table>"
    rows = re.findall(r'<td data-hw-label="(\w+)">(\w*)</td>', SITE["with_labels"](table))
    assert rows == [("setting", "a"), ("default", "1"), ("setting", "b"), ("default", "")]
    other = table.replace("setting", "kind")
    assert SITE["with_labels"](other) == other


def test_links_between_root_pages_lead_to_the_sites_pages() -> None:
    text = SITE["root_page"]("ARCHITECTURE.md")
    assert "(contributing.md)" in text
    assert "CONTRIBUTING.md)" not in text
