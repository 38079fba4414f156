"""The handler process, ``python -m headwater.handler``, which the JVM starts; it is not run by hand.

Owns the one place where the bridge meets the statements it serves, so that neither imports the other's upper floor.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from headwater.bridge.process import serve

if TYPE_CHECKING:
    from headwater.bridge.calls import Handler


#: New objects between two looks for unreachable cycles, of which this package makes few. With Python's default of 700,
#: these looks were nearly half of the time that parsing a commit of 100,000 files took (bench case ``restore``).
_NEW_OBJECTS = 50_000


@cache
def _handlers() -> Mapping[str, Handler[Any]]:
    """Every handler. Importing them takes most of a second, which passes while Spark itself starts."""
    from headwater.groups.settling import SETTLER
    from headwater.log.groups import settle_by
    from headwater.statements.registry import HANDLERS

    settle_by(SETTLER)
    # Modules stay for as long as the process lives. Once: what a call has left in cycles would stay as well.
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    return HANDLERS


def _finish(seconds: float) -> None:
    """Write what was counted of predicates; wait for post-commit maintenance, and for hooks that hear of commits."""
    began = time.monotonic()
    maintenance = sys.modules.get("headwater.transaction.maintenance")
    if maintenance is not None:
        maintenance.wait_for_maintenance(seconds)
    predicates = sys.modules.get("headwater.statements.maintenance.predicate_use")
    if predicates is not None:
        predicates.finish()
    hooks = sys.modules.get("headwater.statements.running.hooks")
    if hooks is not None:
        hooks.wait_for_hooks(seconds - (time.monotonic() - began))


if __name__ == "__main__":
    serve(_handlers, _finish)
