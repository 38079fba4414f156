"""The files for monitoring among the site's assets, and the metrics that they name."""

from __future__ import annotations

import re
from pathlib import Path

from support.paths import ROOT

_FOLDER = ROOT / "docs" / "assets" / "monitoring"
FILES = (_FOLDER / "prometheus-rules.yml", _FOLDER / "grafana-dashboard.json")


def metrics_named(file: Path) -> set[str]:
    """Names such as ``commits_Count``: what follows ``headwater_`` in the file."""
    return set(re.findall(r"\bheadwater_(\w+)", file.read_text("utf-8")))
