"""The documentation site's hook: pages that come from the code, pages of the root folder, and what each page must be.

mkdocs loads it (``mkdocs.yml``). It adds ``properties.md``, ``errors.md`` and the pages below ``errors/`` from the
code, and ARCHITECTURE.md, CHANGELOG.md, CONTRIBUTING.md and SECURITY.md as pages, with their links turned to the
site's. Promises, each a warning that ``mkdocs build --strict`` fails with: every table property has a meaning here,
every link leads somewhere, the reference of the Python API shows no private name, and no page loads anything from
another host. The functions that make pages need no mkdocs; tests call them.
"""

from __future__ import annotations

import json
import logging
import posixpath
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from headwater import __version__  # noqa: E402
from headwater.basics.versions import SUPPORTED_SPARK  # noqa: E402
from headwater.protocol.properties import PROPERTIES, Property  # noqa: E402

_log = logging.getLogger("mkdocs.plugins.headwater")

#: Files of the root folder that are also pages.
ROOT_PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}
#: Where links lead that name something outside ``docs``.
_ELSEWHERE = {"README.md": "index.md", "LICENSE": None}

#: What each table property does, by name; those that do nothing here say so themselves.
MEANINGS: dict[str, str] = json.loads((ROOT / ".ci" / "property-meanings.json").read_text("utf-8"))

#: The classes of SQLSTATE that conditions have, in the order of the menu: the file of each one's page, and its title.
_CLASSES = {
    "2D": ("conflicts", "Conflicts with other writers"),
    "40": ("commits", "Commits that were not made"),
    "25": ("transactions", "States of a transaction"),
    "42": ("statements", "Mistakes in statements, names and options"),
    "0A": ("not-supported", "What is not supported"),
    "22": ("values", "Values out of range"),
    "23": ("constraints", "Constraints"),
    "44": ("checks", "Views and checks"),
    "21": ("cardinality", "More than one row"),
    "KD": ("tables", "Delta tables"),
    "55": ("states-of-tables", "Tables that are not in the needed state"),
    "56": ("sessions", "Sessions and settings"),
    "58": ("storage", "Processes, files and storage"),
    "08": ("connections", "Connections"),
    "F0": ("configuration", "Configuration"),
    "54": ("limits", "Limits"),
    "HY": ("cancelled", "Cancelled statements"),
    "XX": ("damage", "Damage"),
}
_PROPERTIES_OPENING = """# Table properties

Set with `TBLPROPERTIES` in CREATE TABLE and ALTER TABLE; for all new tables of a session with
`spark.databricks.delta.properties.defaults.<name>`. Names ignore case. A property `delta.…` that is not in this list is
refused, with the nearest name; `spark.databricks.delta.allowArbitraryProperties.enabled` lets it through. Properties
without the prefix are your own. `delta.constraints.<name>` is a CHECK constraint, and `delta.feature.<name>` =
`supported` adds a [table feature](features.md). This page is made from the code.
"""
_ERRORS_OPENING = """# Error conditions

Each error has a name, in brackets before its text, and an SQLSTATE. Names are those that Delta Lake documents where the
mistake is the same; names that begin with `HEADWATER_` have no counterpart there. `<…>` stands for what the error fills
in. A statement that fails writes nothing, unless its text says otherwise. In Python, `error.getCondition()` and
`error.getSqlState()` return both; [conflicts](guarantees.md#isolation) have classes of exceptions. Each class of
SQLSTATE has a page with the causes and cures of its conditions. These pages are made from the code.
"""

#: How the sentence begins that says what to do.
_DOES = """
Add Assign Begin Call Cast Change Check Choose Clone Comment COMMIT Compare Compute Correct Create Declare Delete Did
Disable Drop Enable End Find Fix Give If Install It Keep Leave Look Make Mark Move Name Partition Pass Qualify Quote
Read Remove Rename Replace Restart Restore Retain Rewrite Run See Select Set Shorten Start Store Swap Take To Unset
Update Upgrade Use When Write
"""
#: What an error fills in that says what to do, wherever it stands or as the end.
_FILLED_IN = r"<(?:hint|advice|instead|suggestion)>|<reason>\W*$"
_CURE = re.compile(
    rf"(?:(?<=[.?:])\s+|(?<=>)\s*)(?=(?:{'|'.join(_DOES.split())})[\s.;:,])(?!It (?!must))"
    rf"|(?<=[.?:>])\s*(?={_FILLED_IN})"
)


def version_text() -> str:
    """What a page says of the version that it is for."""
    lines = sorted({tuple(map(int, version.split(".")[:2])) for version in SUPPORTED_SPARK})
    sparks = " and ".join([", ".join(f"{a}.{b}" for a, b in lines[:-1]), "{}.{}".format(*lines[-1])])
    return f"{__version__}, which works with Spark {sparks}"


def properties_page() -> str:
    """All table properties: values, default, meaning."""
    lines = [
        _PROPERTIES_OPENING,
        "| property | values | default | meaning |",
        "| --- | --- | --- | --- |",
        *(_property_row(known) for name, known in sorted(PROPERTIES.items()) if known.unused is None),
        "",
        "## Without effect here",
        "",
        "These are recorded for other engines. Setting one is a warning in Spark's log.",
        "",
        "| property | values | why |",
        "| --- | --- | --- |",
        *(
            f"| `{name}` | {_cell(known.expected)} | {_cell(known.unused)} |"
            for name, known in sorted(PROPERTIES.items())
            if known.unused is not None
        ),
    ]
    return "\n".join([*lines, ""])


def _property_row(known: Property[Any]) -> str:
    values = known.expected if known.settable else "set by writers only"
    default = f"`{known.default}`" if known.default is not None else ""
    return f"| `{known.name}` | {_cell(values)} | {default} | {_cell(MEANINGS.get(known.name, '?'))} |"


def properties_without_meaning() -> set[str]:
    return {name for name, known in PROPERTIES.items() if known.unused is None} ^ set(MEANINGS)


@cache
def conditions() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((ROOT / "conf" / "error-conditions.json").read_text("utf-8"))
    return found


def cause_and_cure(message: str) -> tuple[str, str]:
    """A message's sentences, split before the first that says what to do; the second is empty where none does."""
    cause, *cure = _CURE.split(message, maxsplit=1)
    return cause, "".join(cure)


def _by_class() -> dict[str, list[str]]:
    """The names of all conditions, sorted, by class of SQLSTATE in the order of the menu."""
    found: dict[str, list[str]] = {kind: [] for kind in _CLASSES}
    for name, condition in sorted(conditions().items()):
        found[condition["sqlState"][:2]].append(name)
    return {kind: names for kind, names in found.items() if names}


def condition_page(name: str) -> str:
    """The page that describes a condition."""
    return f"errors/{_CLASSES[conditions()[name]['sqlState'][:2]][0]}.md"


def errors_pages() -> dict[str, str]:
    """The list of all error conditions, and for each class of SQLSTATE a page with causes and cures.

    An anchor of the list has the name of its condition, as one of the page of its class has.

    :raises KeyError: a class has no page in ``_CLASSES``.
    """
    known, pages, lines = conditions(), {}, [_ERRORS_OPENING]
    for kind, names in _by_class().items():
        file, title = _CLASSES[kind]
        page = f"errors/{file}.md"
        lines += [
            f"## [{title}]({page}) {{ #class-{kind.lower()} }}",
            "",
            f"SQLSTATE {kind}…",
            "",
            '<div class="hw-list" markdown>',
            "",
        ]
        lines += [f"- [<code>{with_breaks(name)}</code>]({page}#{name.lower()}){{ #{name.lower()} }}" for name in names]
        lines += ["", "</div>", ""]
        texts = [f"# {title}", "", f"Conditions with an SQLSTATE {kind}…; [all conditions](../errors.md).", ""]
        for name in names:
            texts += _condition(name, known[name])
        pages[page] = "\n".join(texts)
    return {"errors.md": "\n".join(lines), **pages}


def _condition(name: str, condition: dict[str, Any]) -> Iterator[str]:
    cause, cure = cause_and_cure(" ".join(condition["message"]).replace("<tried>", ""))
    yield from (f"## {name} {{ #{name.lower()} }}", "", f"SQLSTATE {condition['sqlState']}.", "")
    yield from (f"*Cause.* {_text(cause)}", "")
    if cure:
        yield from (f"*Cure.* {_text(cure)}", "")


def _text(message: str) -> str:
    """A message as Markdown: its placeholders and stars are no markup."""
    return re.sub(r"(`[^`]*`)|([<>*_\[\]])", lambda m: m[1] or f"\\{m[2]}", " ".join(message.split())).replace(
        "\\<", "&lt;"
    )


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


_BENCH_MARK = "<!-- bench: pictures and table -->"


def bench_table() -> str:
    """The cases of ``python -m bench`` that compare, with their limits as bars, from its code."""
    sys.path.insert(0, str(ROOT))
    from bench.__main__ import cases
    from bench.sparks import PEER

    sizes = {"rows": 5_000_000, "files": 1_000_000, "tenth": 100_000}
    others = {PEER: "Delta Lake", "parquet": "plain Parquet"}
    lines = ["| case | what | beside | at most |", "| --- | --- | --- | --- |"]
    for case in cases():
        title = re.sub(r"\{(\w+):,\}", lambda m: f"{sizes[m[1]]:,}", case.title)
        for limit in case.against:
            if limit.other in others and limit.ratio is not None:
                bar = f'<span class="hw-ratio" style="--hw-ratio: {limit.ratio:.2f}"></span>'
                lines.append(f"| `{case.name}` | {title} | {others[limit.other]} | {bar} {limit.ratio:.2f} |")
    return "\n".join(lines)


#: Marks in pages for which a record of measurements or of a proof is shown, by the function that makes Markdown of it.
_RECORDS = {
    r"bench: lakehouse (\w+)": "bench.lakehouse.page.tables",
    r"bench: comet (\w+)": "bench.lakehouse.page.comet",
    r"bench: results": "bench.lakehouse.page.results",
    r"bench: front page": "bench.lakehouse.page.race",
    r"bench: longevity": "bench.lakehouse.page.longevity",
    r"conformance: ([\w ]+?)": "conformance.page.tables",
    r"upgrades: results": "upgrades.page.tables",
}


def from_records(markdown: str) -> str:
    """A page's text with what records say in the place of their marks. What a pattern captures is the argument."""
    sys.path.insert(0, str(ROOT))
    for mark, function in _RECORDS.items():
        module, _, name = function.rpartition(".")

        def filled(found: re.Match[str], module: str = module, name: str = name) -> str:
            return str(getattr(import_module(module), name)(*found.groups()))

        markdown = re.sub(f"<!-- {mark} -->", filled, markdown)
    return markdown


_ANSWER = re.compile(r"<!-- answer: (\w+) -->")
_ERRORS = re.compile(r"<!-- errors: ([^>]*?) -->")


def answer_table(command: str) -> str:
    """The columns of a statement's rows, from the code that answers it."""
    from headwater.protocol.types import ArrayType, MapType, StructType
    from headwater.statements.registry import CALLS

    def text(kind: Any) -> str:
        if isinstance(kind, StructType):
            return f"struct of {', '.join(f'`{field.name}`' for field in kind.fields)}"
        if isinstance(kind, ArrayType):
            return f"array of {text(kind.element)}"
        if isinstance(kind, MapType):
            return f"map of {text(kind.key)} to {text(kind.value)}"
        return {"long": "bigint", "integer": "int"}.get(str(kind.name), str(kind.name))

    output = CALLS[command].output
    assert output is not None
    rows = [f"| `{field.name}` | {text(field.type)} |" for field in output]
    return "\n".join(["| column | type |", "| --- | --- |", *rows])


def errors_table(names: str, up: str) -> str:
    """Conditions with their causes. ``up``: the way from the page to the root of the site."""
    known, rows = conditions(), []
    for name in names.split(", "):
        cause, _ = cause_and_cure(" ".join(known[name]["message"]))
        rows.append(f"| [`{name}`]({up}{condition_page(name)}#{name.lower()}) | {_cell(_text(cause))} |")
    return "\n".join(["| condition | when |", "| --- | --- |", *rows])


_ERROR_LINK = re.compile(r"\]\(((?:\.\./)*)errors\.md#(\w+)\)")


def _to_the_condition(link: re.Match[str]) -> str:
    """A link to a condition in the list of all leads to its description."""
    up, name = link[1], link[2].upper()
    return f"]({up}{condition_page(name)}#{link[2]})" if name in conditions() else link[0]


def filled(markdown: str, page: str) -> str:
    """A page's text with what comes from the code in the place of its marks.

    :raises KeyError: a mark names a statement or a condition that does not exist.
    """
    up = "../" * page.count("/")
    markdown = _ANSWER.sub(lambda mark: answer_table(mark[1]), markdown)
    markdown = _ERRORS.sub(lambda mark: errors_table(mark[1], up), markdown)
    markdown = _ERROR_LINK.sub(_to_the_condition, markdown)
    markdown = from_records(markdown)
    return markdown.replace(_BENCH_MARK, bench_table()) if _BENCH_MARK in markdown else markdown


_ROLE = re.compile(r":(?:class|meth|func|data|mod|attr|exc|obj):(<code>)(?:~[\w.]*\.)?")


def without_roles(html: str) -> str:
    """Docstrings name things by roles, as ``:class:`~a.b.C```: a page shows ``C``."""
    return _ROLE.sub(r"\1", html)


#: Cells of tables, and headings without the link at their end.
_NARROW = re.compile(r"(<(td|h[1-6])\b[^>]*>)(.*?)(?=</\2>|<a class=\"headerlink)", re.DOTALL)
#: Names that are too long for a narrow column.
_NAME = re.compile(r"(?<![\w.&/=\"#])[\w.&;]{12,}")
_TEXT = re.compile(r"[^<>]+(?![^<]*>)")


def breakable(html: str) -> str:
    """Long names in cells and headings may break after dots and underscores and before capitals, but copy as before."""
    return _NARROW.sub(lambda part: part[1] + with_breaks(part[3]), html)


def with_breaks(html: str) -> str:
    """The same of a piece of a page; what stands in tags is left as it is."""
    return _TEXT.sub(lambda text: _NAME.sub(_broken, text[0]), html)


def _broken(name: re.Match[str]) -> str:
    return re.sub(r"(?<=[._])(?=[\w&])|(?<=[a-z])(?=[A-Z])", "<wbr>", name[0])


#: Tables that are lists of names, and the results of benchmarks: on a narrow screen, each row becomes a block
#: (docs/assets/site.css).
_LIST = re.compile(
    r"<table>(\s*<thead>\s*<tr>\s*<th>(?:setting|property|option|condition|feature|case|name|alert|statements)</th>.*?</thead>)(.*?)</table>",
    re.DOTALL,
)


def with_labels(html: str) -> str:
    """Rows of lists of names know their columns' headings."""
    return _LIST.sub(_labelled, html)


def _labelled(table: re.Match[str]) -> str:
    titles = re.findall(r"<th\b[^>]*>(.*?)</th>", table[1], re.DOTALL)
    rows = []
    for row in re.split(r"(?=<tr>)", table[2]):
        labels = iter(titles)
        rows.append(re.sub(r"<td\b", lambda _, labels=labels: f'<td data-hw-label="{next(labels, "")}"', row))
    return f'<table data-hw="names">{table[1]}{"".join(rows)}</table>'


def private_names(html: str) -> list[str]:
    """Those of types and defaults that signatures of the Python API show."""
    return sorted(set(re.findall(r"<span title=\"([\w.]*\b_[a-zA-Z]\w*)\">", html)))


def root_page(name: str) -> str:
    """A file of the root folder, with its links turned to the site's pages."""
    text = (ROOT / name).read_text("utf-8")
    return re.sub(r"(\[[^\]]*\])\(([^)#\s]+)(#[^)\s]*)?\)", _site_link, text)


def _site_link(link: re.Match[str]) -> str:
    text, target, anchor = link[1], link[2], link[3] or ""
    if ":" in target:
        return link[0]
    path = posixpath.normpath(target)
    if path.startswith("docs/"):
        return f"{text}({path.removeprefix('docs/')}{anchor})"
    page = ROOT_PAGES.get(path) or _ELSEWHERE.get(path)
    return f"{text}({page}{anchor})" if page else text[1:-1]


# --- what mkdocs calls ------------------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    config.extra["version_text"] = version_text()
    config.nav = _with_errors(config.nav)
    config.watch += [str(ROOT / name) for name in ROOT_PAGES] + [str(ROOT / "python"), str(ROOT / "conf")]
    return config


def _with_errors(menu: Any) -> Any:
    """The menu with the pages of errors below each other."""
    if isinstance(menu, dict):
        return {title: _with_errors(below) for title, below in menu.items()}
    if isinstance(menu, list):
        return [_with_errors(each) for each in menu]
    return {"Error conditions": [{"All conditions": menu}, *list(errors_pages())[1:]]} if menu == "errors.md" else menu


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    if without := properties_without_meaning():
        _log.warning("MEANINGS in .ci/site.py and the table properties differ: %s", ", ".join(sorted(without)))
    made = {"properties.md": properties_page(), **errors_pages()}
    made.update({page: root_page(name) for name, page in ROOT_PAGES.items() if (ROOT / name).exists()})
    for page, content in made.items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    return filled(markdown, page.file.src_uri)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    for item in page.toc.items:
        _break_titles(item)
    if not any(item.children for item in page.toc.items):
        page.meta.setdefault("hide", ["toc"])  # its room belongs to the page
    return with_labels(breakable(without_roles(html)))


def _break_titles(item: Any) -> None:
    item.title = with_breaks(item.title)
    for child in item.children:
        _break_titles(child)


def on_post_build(config: Any) -> None:
    """What a page loads must lie in the site, and what it names must be public."""
    loads = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)")
    for page in Path(config.site_dir).rglob("*.html"):
        html = page.read_text("utf-8")
        for found in set(loads.findall(html)):
            _log.warning("%s loads %s: the site loads nothing from other hosts", page.name, found)
        for name in private_names(html):
            _log.warning("%s shows %s: users see public names only", page.name, name)
