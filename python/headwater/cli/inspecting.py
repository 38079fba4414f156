"""What ``headwater inspect`` does: find the table, or the tables in a folder, say where the page is, and serve
it until it is interrupted.
"""

from __future__ import annotations

from headwater.basics.amounts import plural
from headwater.basics.errors import HeadwaterError
from headwater.cli.locations import reached
from headwater.inspector.folder import Folder, Found
from headwater.inspector.table import InspectedTable
from headwater.log.snapshot import table_exists

#: What the extra ``inspect`` installs.
_PACKAGES = ("starlette", "uvicorn")


def serve(path: str, port: int) -> None:
    """Serve the inspector of a table, or of the tables in a folder.

    :raises HeadwaterError: ``HEADWATER_INSPECT_NO_TABLE``, ``HEADWATER_INSPECT_PORT_TAKEN``,
        ``HEADWATER_INSPECT_NEEDS_PACKAGES``; those of reaching a path.
    """
    try:
        from headwater.inspector.server import Inspector
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise HeadwaterError("HEADWATER_INSPECT_NEEDS_PACKAGES", {"package": error.name}) from None
    with reached(path) as place:
        target: InspectedTable | Folder
        if table_exists(place.path, place.store):
            target, is_at, them = InspectedTable(place.path, place.store), f"{place.shown} is at", "the table"
        else:
            target = Folder(place.path, place.store)
            found = _tables_in(target)
            if not found.tables:
                notes = "".join(f" {note}" for note in found.notes)
                raise HeadwaterError("HEADWATER_INSPECT_NO_TABLE", {"path": place.shown, "notes": notes})
            is_at, them = f"{plural(len(found.tables), 'table')} in {place.shown}: the page is at", "the tables"
        inspector = Inspector(target, port)
        print(f"{is_at} {inspector.url}")
        print(f"Whoever has this address can read {them}. Ctrl+C ends it.", flush=True)
        inspector.run()


def _tables_in(folder: Folder) -> Found:
    try:
        return folder.search()
    except (FileNotFoundError, NotADirectoryError):
        return Found([], [])
