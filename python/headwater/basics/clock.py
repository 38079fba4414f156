"""The clock: the current time, for everything that a log or a statement dates.

Owns the one place where the package reads the machine's clock. Call it through the module, so that a test can set it:
``monkeypatch.setattr("headwater.basics.clock.milliseconds", …)``. How long something takes is measured by
``time.monotonic``.
"""

from __future__ import annotations

import time


def milliseconds() -> int:
    """Milliseconds since the epoch, by this machine's clock."""
    return time.time_ns() // 1_000_000
