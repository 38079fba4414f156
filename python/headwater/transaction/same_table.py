"""Detects that a table was deleted and re-created at the same path since the transaction began.

Owns the look at the log right before a commit is put: in the log of another table, the commit would leave a gap, or
name files that the table never had. A table is recognized by the file of the version that was read; if that is another
file, by the identifier in its metadata (the protocol's chapter "Change Metadata"). It looks only on stores that can
look up one file without a listing: elsewhere it would cost as much as the commit.

Owns also the store that everything is written through that follows a commit: checkpoints, checksums, manifests and
other formats' metadata belong to the table that the commit was made to. It looks right before each file, or batch of
files, is written, and again after it: what was written while the table went is taken back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from headwater.basics.errors import HeadwaterError
from headwater.basics.grouping import next_fit
from headwater.log.segment import version_not_found
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.stores import Store
from headwater.stores.interface import Failed, FileInfo, StoreOver

#: Files that are written between two looks at the log. Chosen, not measured: two requests more for a thousand.
_LOOKED_AFTER_TOGETHER = 1000


def check_same_table(snapshot: Snapshot, store: Store) -> None:
    """Return if the log a snapshot was read from is there still, versions that were cleaned up aside.

    :raises HeadwaterError: ``DELTA_TABLE_ID_MISMATCH``, ``DELTA_TABLE_NOT_FOUND``; ``DELTA_VERSION_NOT_FOUND`` where
        the log ends before the version, as that of a table put back from a backup does.
    """
    tip = snapshot.segment.listing.commits.get(snapshot.version)
    if tip is None:
        return
    try:
        found = store.following([tip.path])
    except OSError:  # the put will show whether the store works
        return
    if found is not None:
        _compare(snapshot, store, tip, found)


def _compare(snapshot: Snapshot, store: Store, tip: FileInfo, found: Sequence[FileInfo]) -> None:
    if tip in found:
        return
    newest = load_snapshot(snapshot.table_path, store)
    check_id(snapshot, newest)
    if newest.version < snapshot.version:
        raise version_not_found(newest.segment.listing, snapshot.version)


def check_id(snapshot: Snapshot, newest: Snapshot) -> None:
    """Compare what is at a path now with what was.

    :raises HeadwaterError: ``DELTA_TABLE_ID_MISMATCH``.
    """
    if newest.metadata.id != snapshot.metadata.id:
        raise HeadwaterError(
            "DELTA_TABLE_ID_MISMATCH",
            {"tableLocation": snapshot.table_path, "seen": snapshot.metadata.id, "found": newest.metadata.id},
        )


def writing_to_same_table(snapshot: Snapshot) -> Snapshot:
    """The same version, for what follows its commit: nothing is written through its store once the table is another."""
    return snapshot.reached_through(_OfOneTable(snapshot))


class _OfOneTable(StoreOver):
    """A store that writes only while a table is the one that a snapshot was read from, whatever the file.

    :raises HeadwaterError: from what writes, as :func:`check_same_table`.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.store)
        self._snapshot = snapshot
        self.is_shared, self.of_catalog = self.inner.is_shared, self.inner.of_catalog
        self.is_provisional = self.inner.is_provisional

    def _check_change(self, path: str = "") -> None:
        """As :func:`check_same_table`, whatever the path, on any store: nobody waits here for what it costs."""
        tip = self._snapshot.segment.tip
        found = self.inner.following([tip.path])
        if found is None:
            directory, _, name = tip.path.rpartition("/")
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                found = self.inner.list_from(directory, name)[:1]
        _compare(self._snapshot, self.inner, tip, found or ())

    def _write(self, files: Mapping[str, bytes], put: Callable[[], None]) -> None:
        self._check_change()
        try:
            put()
        finally:
            self._check_after(files)

    def _check_after(self, files: Mapping[str, bytes]) -> None:
        try:
            self._check_change()
        except HeadwaterError:
            for path, data in files.items():
                # A table that has taken the place may also have a file of this name.
                with contextlib.suppress(OSError):
                    if self.inner.read(path) == data:
                        self.inner.delete(path)
            raise

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._write({path: data}, lambda: self.inner.put_if_absent(path, data))

    def put(self, path: str, data: bytes) -> None:
        self._write({path: data}, lambda: self.inner.put(path, data))

    def put_many(self, files: Mapping[str, bytes]) -> None:
        for some in next_fit(files, lambda path: 1, _LOOKED_AFTER_TOGETHER):
            batch = {path: files[path] for path in some}
            self._write(batch, partial(self.inner.put_many, batch))

    def make_directory(self, path: str) -> None:
        self._check_change()
        self.inner.make_directory(path)

    def delete_many(self, directory: str, paths: Sequence[str]) -> list[Failed]:
        self._check_change()
        return self.inner.delete_many(directory, paths)

    def delete_empty(self, path: str) -> bool:
        self._check_change()
        return self.inner.delete_empty(path)

    # What other methods make up on other stores

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return self.inner.read_many(paths)

    def missing(self, paths: Sequence[str]) -> list[str]:
        return self.inner.missing(paths)
