"""The smoke test, which each supported Spark and each file of a release runs, has every statement."""

from __future__ import annotations

import re

from headwater.statements.registry import CALLS
from support.paths import ROOT

_SMOKE = (ROOT / ".ci" / "smoke.py").read_text("utf-8")
#: Statements of Spark's own grammar, and names of what others begin with.
_MORE = {"MERGE", "UPDATE", "DELETE", "COPY INTO", "BEGIN TRANSACTION", "DESCRIBE HISTORY", "WITH (idCols", "EXPLAIN"}


def test_each_statement_is_tried() -> None:
    words = {call.words for call in CALLS.values() if call.grammar and call.words} | _MORE
    assert len(words) > 20
    assert {each for each in words if not re.search(rf"\b{re.escape(each)}", _SMOKE)} == set()
