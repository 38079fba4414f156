"""The bench of long life, without a JVM: its measure, and that the page shows its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench import longevity
from bench.lakehouse import page


def test_the_rate_is_the_mean_change_from_a_cycle_to_the_next() -> None:
    assert longevity.degradation([2.0, 2.0, 2.0]) == 0
    assert longevity.degradation([1.0, 2.0, 3.0]) == pytest.approx(0.75)
    assert longevity.degradation([2.0, 1.0]) == -0.5


def test_each_cycle_loads_rows_of_its_own() -> None:
    first, second = (longevity._statements("load", cycle, 100, 4) for cycle in (0, 1))
    assert [text.partition("FROM ")[2] for text in first] == [f"range({at}, {at + 25}, 1, 1)" for at in (0, 25, 50, 75)]
    assert second[0].endswith("range(100, 125, 1, 1)")


def test_the_page_has_what_the_record_has(tmp_path: Path) -> None:
    assert page.longevity(tmp_path / "none") == "No run of it is recorded yet."
    phases = dict.fromkeys(longevity.PHASES, 1.25)
    found = {"first": phases, "last": phases, "degradation": phases, "memory": {"driver": [7, 8], "handler": [9, 9]}}
    context = {"when": "2026-01-02", "processors": 2, "load": 0.1, "minutes": 3, "cycles": 4, "rows": 5000, "loads": 6}
    record = tmp_path / "longevity.json"
    record.write_text(json.dumps({**context, "spark": "4.2.1", "variants": {"Headwater": found}}))
    text = page.longevity(record)
    assert (
        "| Headwater | 1.2 → 1.2 s | 1.2 → 1.2 s | 1.2 → 1.2 s | +1.250 / +1.250 / +1.250 | 7 → 8 MiB | 9 → 9 MiB |"
        in text
    )
    assert "4 cycles of 5,000 rows in 6 INSERTs, 3 minutes on 2026-01-02, Spark 4.2.1" in text
