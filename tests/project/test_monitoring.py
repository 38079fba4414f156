"""The alert rules and the dashboard among the site's assets name only metrics that a Spark with Headwater exposes.

``tests/bridge/test_metrics.py`` holds the same names against a page that a driver serves.
"""

from __future__ import annotations

import json
import re

import pytest

from headwater.basics import counts
from support.monitoring import FILES, metrics_named
from support.paths import ROOT

_SOURCE = ROOT / "jvm/src/main/scala/org/apache/spark/sql/headwater/bridge/HandlerMetrics.scala"
_TIMER = (
    *("Count", "Max", "Mean", "Min", "StdDev"),
    *(f"{percent}thPercentile" for percent in ("50", "75", "95", "98", "99", "999")),
    *("MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate"),
)


def _exposed() -> set[str]:
    """The names of the page for Prometheus, by the kind of each metric."""
    found = re.findall(r'metricRegistry\.(timer|counter)\("(\w+)"\)', _SOURCE.read_text("utf-8"))
    assert {kind for kind, _ in found} == {"timer", "counter"}
    names = {f"{name}_{part}" for kind, name in found for part in (_TIMER if kind == "timer" else ("Count",))}
    names |= {f"{name}_{part}" for name in counts.LEVELS for part in ("Number", "Value")}
    return names | {f"{name}_Count" for name in counts.MEANINGS.keys() - counts.LEVELS}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_metric_that_a_file_names_is_exposed(file) -> None:
    named = metrics_named(file)
    assert named
    assert named - _exposed() == set()


def test_the_names_that_rules_and_dashboard_use_are_those_that_the_scrape_makes() -> None:
    scrape = (ROOT / "docs/assets/monitoring/prometheus-scrape.yml").read_text("utf-8")
    patterns = re.findall(r"regex: (.*)", scrape)
    line = "metrics_rivers_driver_headwater_calls_99thPercentile"
    matches = [re.fullmatch(pattern, line) for pattern in patterns]
    assert [match and match.groups() for match in matches] == [
        ("rivers", "calls_99thPercentile"),
        ("calls_99thPercentile",),
    ]
    assert "replacement: headwater_$1" in scrape


def test_the_dashboard_s_panels_do_not_overlap() -> None:
    dashboard = json.loads((ROOT / "docs/assets/monitoring/grafana-dashboard.json").read_text("utf-8"))
    places = [
        (x, y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24
    assert all(panel["title"] and panel["targets"] for panel in dashboard["panels"])


def test_each_alert_says_what_happened_and_what_to_do() -> None:
    rules = (ROOT / "docs/assets/monitoring/prometheus-rules.yml").read_text("utf-8").split("- alert: ")[1:]
    assert len(rules) > 4
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    for rule in rules:
        assert all(part in rule for part in ("expr:", "severity:", "summary:", "description:")), rule
        assert f"`{rule.split()[0]}`" in page, "docs/operations.md lists the alerts"
