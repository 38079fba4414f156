"""What the documents call absent is absent: each such claim is held by a registry of the package, or named here."""

from __future__ import annotations

import re

from headwater.protocol.properties import PROPERTIES, canonical_name
from headwater.sql import elsewhere
from headwater.tables import DeltaTable
from support.documents import pages, sentences

#: Rows of tables that say that something is not there, and sentences that say that a call fails for that reason.
_ROW = re.compile(r"^\| (.*?) (?=\|)(?:.*\| not there\b|.*\bare not there\b)")
_SENTENCE = re.compile(r"not (?:yet )?(?:implemented|supported)|raises? an error", re.IGNORECASE)
_REFUSED = {statement.name for statement in elsewhere._STATEMENTS}

#: Claims of no statement that the parser could refuse. A feature that comes must leave this list and its page.
_UNREGISTERED = {
    "Auto Loader",
    "branches",
    "Delta Sharing client",
    "UniForm",
    "views of the catalog",
    "Windows",
    "write-audit-publish",
}


def _claims() -> list[str]:
    rows = [row[1] for page in pages() for line in page.read_text("utf-8").splitlines() if (row := _ROW.match(line))]
    return [name.strip(" `") for row in rows for name in row.split(", ")]


def test_what_is_not_there_is_refused_by_name() -> None:
    found = _claims()
    assert len(found) > 10
    assert [name for name in found if name not in _REFUSED | _UNREGISTERED] == []
    assert [name for name in _UNREGISTERED if name not in found] == []


def test_no_method_that_exists_is_called_missing() -> None:
    methods = {name for name in vars(DeltaTable) if not name.startswith("_")}
    found = [
        f"{page.name}: {name}"
        for page in pages()
        for sentence in sentences(page)
        if _SENTENCE.search(sentence)
        for name in re.findall(r"`(?:DeltaTable\.)?(\w+)(?:\(\))?`", sentence)
        if name in methods
    ]
    assert not found


#: What is called a table's property: names in code, but those of modules.
_PROPERTY = re.compile(r"[`'](delta\.(?!tables\b|exceptions\b|connect\b)[A-Za-z]+(?:\.[A-Za-z]+)*)[`']")
_WITHOUT_EFFECT = re.compile(r"\bno effect\b|\brecorded for other engines\b|\bnot used\b")


def _sentences() -> list[tuple[str, str]]:
    """Those of all pages, with the page's name."""
    return [(page.name, sentence) for page in pages() for sentence in sentences(page)]


def test_properties_that_pages_name_can_be_set() -> None:
    found = {name for _, sentence in _sentences() for name in _PROPERTY.findall(sentence)}
    assert len(found) > 20
    for name in found:
        assert canonical_name(name) == name  # it raises an error for a name that it does not know


def test_properties_without_effect_are_those_that_nothing_reads() -> None:
    claims = [
        (page, name)
        for page, sentence in _sentences()
        if _WITHOUT_EFFECT.search(sentence)
        for name in _PROPERTY.findall(sentence)
    ]
    assert len(claims) > 2
    assert [(page, name) for page, name in claims if PROPERTIES[name].unused is None] == []
