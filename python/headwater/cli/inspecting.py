"""What ``headwater inspect`` does: find the table, say where the page is, and serve it until it is interrupted."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.fs as pafs

from headwater.errors import HeadwaterError, plain_reason
from headwater.log.snapshot import table_exists
from headwater.stores import Store, store_for
from headwater.stores.arrow import ArrowStore
from headwater.stores.interface import SCHEME


def serve(path: str, port: int) -> None:
    """Serve the inspector of a table.

    :param path: on the local file system, or a URI that pyarrow has a file system for.
    :raises HeadwaterError: ``HEADWATER_INSPECT_NO_TABLE``, ``HEADWATER_INSPECT_PORT_TAKEN``,
        ``HEADWATER_INSPECT_NEEDS_PACKAGES``, ``HEADWATER_INSPECT_UNREACHABLE``.
    """
    try:
        from headwater.inspector.server import Inspector
        from headwater.inspector.table import InspectedTable
    except ModuleNotFoundError as error:
        raise HeadwaterError("HEADWATER_INSPECT_NEEDS_PACKAGES", {"package": error.name}) from None
    store, table_path = located(path)
    if not table_exists(table_path, store):
        raise HeadwaterError("HEADWATER_INSPECT_NO_TABLE", {"path": table_path})
    inspector = Inspector(InspectedTable(table_path, store), port)
    print(
        f"{table_path} is at {inspector.url}\nWhoever has this address can read the table. Ctrl+C ends it.", flush=True
    )
    inspector.run()


def located(path: str) -> tuple[Store, str]:
    """The store of a path, and the path as it spells it.

    :raises HeadwaterError: ``HEADWATER_INSPECT_UNREACHABLE``.
    """
    scheme = SCHEME.match(path)
    if scheme is None or scheme.group(1).lower() == "file":
        return store_for(path)
    try:
        filesystem, inner = pafs.FileSystem.from_uri(path)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise HeadwaterError("HEADWATER_INSPECT_UNREACHABLE", {"path": path, "reason": plain_reason(error)}) from None
    store = ArrowStore(filesystem)
    return store, store.uri(f"{scheme.group(0)}//{inner}")
