"""Every setting that code names is documented, and every documented one is read."""

from __future__ import annotations

import re

from headwater.statements.settings import INTERNAL, SETTINGS, UNUSED_SETTINGS, markdown
from support.paths import ROOT

NAME = re.compile(r"""["'](spark\.(?:headwater|databricks)\.[A-Za-z0-9_.]*)""")


def named() -> set[str]:
    """All names of settings in texts of the code, but for the list itself; some are only beginnings."""
    sources = [*(ROOT / "python" / "headwater").rglob("*.py"), *(ROOT / "jvm").rglob("*.scala")]
    texts = (s.read_text(encoding="utf-8") for s in sources if s.name != "settings.py")
    return {name for text in texts for name in NAME.findall(text)}


def test_each_setting_that_code_names_is_listed():
    exact = {s.name for s in SETTINGS if not s.is_family} | UNUSED_SETTINGS.keys() | set(INTERNAL)
    families = tuple(s.prefix for s in SETTINGS if s.is_family)
    unknown = {
        name
        for name in named()
        if name not in exact
        and not name.startswith(families)
        and not (name.endswith(".") and any(known.startswith(name) for known in (*exact, *families)))
    }
    assert unknown == set()


def test_each_listed_setting_is_named_by_code():
    assert {s.name for s in SETTINGS if not any(name.startswith(s.prefix) for name in named())} == set()


def test_the_documentation_is_that_of_the_list():
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == markdown()
