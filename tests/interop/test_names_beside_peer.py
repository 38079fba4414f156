"""The conditions of mistakes in both engines; ``tests/spark/test_names_of_mistakes.py`` makes a sample in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.mistakes import EXPECTED


@pytest.mark.spark
@pytest.mark.soak
def test_the_connector_still_answers_what_is_listed(peer: Any, tmp_path: Path) -> None:
    made = f"mistakes.outcomes(spark, {str(tmp_path)!r}, 'mistakes_of_theirs')"
    found = dict(peer.run(f"from support import mistakes\nresult = list({made}.items())"))
    listed = {name: entry["theirs"] for name, entry in EXPECTED.items()}
    assert {
        name: answer for name, answer in found.items() if answer not in (listed[name], listed[name].split()[0])
    } == {}
