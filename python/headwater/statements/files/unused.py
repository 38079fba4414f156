"""Files that a statement has written and does not need, deleted by their names while it goes on.

Owns the difference from :meth:`~headwater.bridge.statement.Statement.discard`, which deletes all that the call has
written since its last commit: what a step of a statement gives up are files of its own, and others may be needed still,
in this table or in another one. Promise: no failure to delete fails the statement; what stays is left to VACUUM.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from headwater.stores import Store, absolute_path


def delete_unused(store: Store, table: str, paths: Iterable[str], *, folders: bool = False) -> None:
    """Delete files of a table.

    :param paths: as the log has them.
    :param folders: whether folders that are empty then are deleted too.
    """
    for path in paths:
        whole = absolute_path(table, path)
        folder, _, name = whole.rpartition("/")
        with contextlib.suppress(OSError):
            store.delete(whole)
            if store.is_local:  # Hadoop puts a checksum beside each file
                store.delete(f"{folder}/.{name}.crc")
        if folders:
            with contextlib.suppress(OSError):
                store.delete_empty(folder)
