"""Where things are that tests read, and start processes with."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
#: The package is imported from here.
SOURCES = ROOT / "python"
CONDITIONS = ROOT / "conf" / "error-conditions.json"
#: Tables other systems wrote, and the list of the peer's JARs; not part of the repository.
SHARED = Path(os.environ.get("HEADWATER_SHARED", ROOT.parent / "shared"))
