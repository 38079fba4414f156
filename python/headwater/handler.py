"""The handler process, ``python -m headwater.handler``: the JVM starts it; nobody runs it by hand.

Owns the one place where the bridge meets the statements it serves, so that neither imports the other's upper floor.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headwater.bridge.process import serve

if TYPE_CHECKING:
    from headwater.bridge.calls import Handler


def _handlers() -> Mapping[str, Handler[Any]]:
    """Every handler. Importing them takes most of a second, which passes while Spark itself starts."""
    from headwater.statements.registry import HANDLERS

    return HANDLERS


def _finish(seconds: float) -> None:
    """Wait for post-commit maintenance, if any was begun."""
    maintenance = sys.modules.get("headwater.transaction.maintenance")
    if maintenance is not None:
        maintenance.wait_for_maintenance(seconds)


if __name__ == "__main__":
    serve(_handlers, _finish)
