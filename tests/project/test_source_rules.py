"""Rules for the sources that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from headwater.protocol.properties import PROPERTIES
from headwater.statements.registry import HANDLERS
from support.documents import blocks, pages
from support.paths import TESTS

PACKAGE = TESTS.parent / "python/headwater"


def test_tests_find_their_modules_without_changing_the_path() -> None:
    """What tests share is imported as ``support.<name>``; see :mod:`support`."""
    change = re.compile(r"sys\.path(\[|\.(insert|append|extend)| *\+?=)")
    found = [str(file) for file in TESTS.rglob("*.py") if change.search(file.read_text(encoding="utf-8"))]
    assert not found


def test_one_module_reads_the_clock() -> None:
    """What dates a log can be set by a test, all at once."""
    reads = re.compile(r"\btime\.time(_ns)?\(|\bdatetime\.now\(")
    found = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if reads.search(file.read_text("utf-8"))}
    assert found == {"basics/clock.py"}


def test_a_comment_on_a_constant_has_one() -> None:
    """A constant that went took its comment along."""
    lone = re.compile(r"^ *#:.*\n(?: *#.*\n)*\n", re.MULTILINE)
    assert [str(file) for file in PACKAGE.rglob("*.py") if lone.search(file.read_text("utf-8"))] == []


def test_one_module_spells_the_names_of_table_properties() -> None:
    """Elsewhere a property is a value, which has its type, its default and whom a change concerns. ``tables/`` is the
    users' side, which imports nothing of the package.
    """
    spelled = re.compile("|".join(f"[\"']{re.escape(name)}[\"']" for name in PROPERTIES))
    files = {str(path.relative_to(PACKAGE)): path for path in PACKAGE.rglob("*.py")}
    found = {name for name, path in files.items() if spelled.search(path.read_text("utf-8"))}
    assert found == {"protocol/properties.py", "tables/table.py"}


def test_a_tables_properties_are_asked_of_its_definition() -> None:
    """A configuration alone is read where it is all there is: of a draft, of an older version, of another writer."""
    lines = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"\.of\(\S*(snapshot|definition)\.metadata\.configuration\)", line)
        or re.search(r"(snapshot|definition)\.metadata\.configuration(\.get\(|\[)", line)
    ]
    assert not lines


def test_one_package_writes_definitions() -> None:
    """``protocol`` and ``metaData`` come from ``definition/``, or from a log. A transaction takes both at once; only it
    has others, to compose transactions and to undo commits.
    """
    files = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    writers = {name for name, path in files.items() if any(_writes_definitions(path)) and "definition/" not in name}
    transactions = {"transaction/transaction.py", "groups/composing.py", "groups/undoing.py"}
    readers = {"protocol/actions.py", "catalogs/unity/tables.py", "streams/schema_log.py"}
    assert writers == readers | transactions


def _writes_definitions(path: Path) -> Iterator[bool]:
    """For each call, whether it makes one of these actions, or has a transaction commit it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            changed = ast.unparse(node.args[0]).rpartition(".")[2] if called == "replace" and node.args else ""
            yield called in ("Metadata", "Protocol", "update_metadata", "update_protocol") or changed in (
                "metadata",
                "protocol",
            )


def test_what_the_documents_call_missing_is_missing() -> None:
    """No statement that has a handler, and the same in both documents."""
    lists = {"CHANGELOG.md": r"^### Not yet\n\n(.*?)\.$", "README.md": r"^Not yet implemented, .*?: (.*?)\."}
    found = []
    for document, pattern in lists.items():
        match = re.search(pattern, (TESTS.parent / document).read_text("utf-8"), re.MULTILINE)
        assert match is not None, document
        found.append(match[1].lower().split(", "))
    assert found[0] == found[1]
    assert [name for name in found[0] if any(handler.startswith(name) for handler in HANDLERS)] == []


def test_a_line_of_sql_in_the_documents_ends_with_its_statement() -> None:
    """``spark-sql`` runs what a user types once a *line* ends in ``;``: with a comment after it, Enter runs nothing."""
    found = [
        f"{page.name}: {line}"
        for page in pages()
        for block in blocks(page, TESTS)
        if block.language == "sql"
        for line in block.text.splitlines()
        if not line.startswith("--") and re.search(r";\s+\S", line)
    ]
    assert not found
