"""What ``headwater inspect`` does: find the table, say where the page is, and serve it until it is interrupted."""

from __future__ import annotations

from headwater.basics.errors import HeadwaterError
from headwater.cli.locations import reached
from headwater.log.snapshot import table_exists

#: What the extra ``inspect`` installs.
_PACKAGES = ("starlette", "uvicorn")


def serve(path: str, port: int) -> None:
    """Serve the inspector of a table.

    :raises HeadwaterError: ``HEADWATER_INSPECT_NO_TABLE``, ``HEADWATER_INSPECT_PORT_TAKEN``,
        ``HEADWATER_INSPECT_NEEDS_PACKAGES``; those of reaching a path.
    """
    try:
        from headwater.inspector.server import Inspector
        from headwater.inspector.table import InspectedTable
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise HeadwaterError("HEADWATER_INSPECT_NEEDS_PACKAGES", {"package": error.name}) from None
    with reached(path) as place:
        if not table_exists(place.path, place.store):
            raise HeadwaterError("HEADWATER_INSPECT_NO_TABLE", {"path": place.shown})
        inspector = Inspector(InspectedTable(place.path, place.store), port)
        print(f"{place.shown} is at {inspector.url}")
        print("Whoever has this address can read the table. Ctrl+C ends it.", flush=True)
        inspector.run()
