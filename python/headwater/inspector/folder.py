"""A folder of tables: which tables lie below it, what each of them is at a glance, and each of them to look at.

Owns the search for tables, and what may be read for one of them. Promises:

1. A request names a table by what the search found; no path of a request is read.
2. The search follows no symbolic link, so it neither leaves the folder nor runs in a circle. What is read for a table
   lies in the folder too, wherever links and the paths of a log lead.
3. The search is bounded, and the answer says so if it ended early.
4. What cannot be listed or read is one line of the answer, and the other tables are shown.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.basics.amounts import plural
from headwater.basics.errors import HeadwaterError, access_failed
from headwater.basics.recent import Recent
from headwater.inspector.advice import advice
from headwater.inspector.overview import counts
from headwater.inspector.plain import short
from headwater.inspector.table import InspectedTable, View
from headwater.log.segment import list_log
from headwater.log.snapshot import load_snapshot
from headwater.protocol.file_names import LOG_DIRECTORY
from headwater.stores import FileInfo, Store
from headwater.stores.arrow import ArrowStore
from headwater.stores.interface import StoreOver, in_parallel

#: Tables that a search finds, folders that it lists, and levels below the folder that it enters.
MOST_TABLES, MOST_FOLDERS, DEEPEST = 500, 5000, 6
#: Files of a table up to which its row has findings; of a larger one, its own page has them.
_MOST_FILES = 20_000
#: Problems of a search that an answer names.
_MOST_PROBLEMS = 20


class Children(NamedTuple):
    """The folders in a folder, by name, and how many symbolic links to folders were left out."""

    names: list[str]
    links: int


class Found(NamedTuple):
    """What a search found.

    :param tables: paths relative to the folder, by name.
    :param notes: sentences that say what was not searched, and why.
    """

    tables: list[str]
    notes: list[str]


class Folder:
    """A folder that is looked at. Its methods may be called by several threads."""

    def __init__(self, path: str, store: Store) -> None:
        self.path = path.rstrip("/")
        self._store = store if isinstance(store, ArrowStore) else _Inside(store, path)
        self._children: Callable[[str], Children] = (
            (lambda path: Children(store.folders(path), 0)) if isinstance(store, ArrowStore) else _local_children
        )
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._glances: Recent[str, tuple[object, dict[str, Any]]] = Recent(MOST_TABLES)

    def search(self) -> Found:
        """The tables below the folder as they are now.

        :raises OSError: the folder itself cannot be listed.
        """
        tables, notes, failures = list[str](), list[str](), list[str]()
        links, listed, too_deep, ended_early = 0, 0, 0, False
        level = [""]
        for depth in range(DEEPEST + 1):
            some = level[: MOST_FOLDERS - listed]
            ended_early = ended_early or len(some) < len(level)
            below = list[str]()
            for inside, children in zip(some, self._listed(some), strict=True):
                if len(tables) == MOST_TABLES:
                    ended_early = True
                    break
                listed += 1
                if isinstance(children, OSError):
                    if not inside:
                        raise children
                    reason = children.strerror or type(children).__name__
                    failures.append(f"{short(inside)} cannot be listed: {reason}.")
                    continue
                links += children.links
                if LOG_DIRECTORY in children.names:
                    tables += [inside] if inside else []
                    continue
                entered = [name for name in children.names if not name.startswith((".", "_"))]
                if depth == DEEPEST:
                    too_deep += len(entered)
                else:
                    below += [f"{inside}/{name}" if inside else name for name in entered]
            level = below
        if ended_early:
            notes.append(
                f"The search ended after {plural(len(tables), 'table')} in {plural(listed, 'folder')}, so there may be "
                "more tables: inspect a folder further down to see them."
            )
        if too_deep:
            notes.append(
                f"{plural(too_deep, 'folder')} more than {DEEPEST} levels down {_was(too_deep)} not searched: inspect "
                "a folder further down to see the tables there."
            )
        if links:
            notes.append(f"{plural(links, 'symbolic link')} to a folder {_was(links)} not followed.")
        notes += failures[:_MOST_PROBLEMS]
        if len(failures) > _MOST_PROBLEMS:
            notes.append(f"{plural(len(failures) - _MOST_PROBLEMS, 'more folder')} cannot be listed.")
        with self._lock:
            self._known.update(tables)
        return Found(sorted(tables), notes)

    def _listed(self, folders: Sequence[str]) -> Sequence[Children | OSError]:
        """What is in each of some folders, or why that is not known."""
        if self._store.is_local:
            return [self._list(inside) for inside in folders]
        return in_parallel(self._list, folders)

    def _list(self, inside: str) -> Children | OSError:
        try:
            return self._children(f"{self.path}/{inside}" if inside else self.path or "/")
        except OSError as error:
            return error

    def table(self, name: str) -> InspectedTable:
        """One of the tables that a search found, or would find.

        :raises HeadwaterError: ``HEADWATER_INSPECT_NO_TABLE``.
        """
        with self._lock:
            is_known = name in self._known
        if not is_known and name not in self.search().tables:
            raise HeadwaterError("HEADWATER_INSPECT_NO_TABLE", {"path": f"{self.path}/{short(name)}", "notes": ""})
        return InspectedTable(f"{self.path}/{name}", self._store)

    def glance(self, name: str) -> dict[str, Any]:
        """A table in a row: version, time of the last commit, files, bytes, rows and findings.

        :raises HeadwaterError: those of :meth:`table`, and of loading a snapshot.
        """
        table = self.table(name)
        newest = list_log(table.path, table.store)
        state = [(file.name, file.size, file.modification_time) for file in _newest_files(newest.commits)]
        known = self._glances.get(name)
        if known is not None and known[0] == state:
            return known[1]
        snapshot = load_snapshot(table.path, table.store)
        view = View(snapshot)
        found: dict[str, Any] = {
            "version": snapshot.version,
            "time": snapshot.timestamp,
            "files": snapshot.num_files,
            "bytes": snapshot.size_in_bytes,
            "rows": None,
            "findings": None,
            "findingsFailed": None,
        }
        if snapshot.num_files <= _MOST_FILES:
            try:
                found["rows"] = view.once(counts, counts)["rows"]
                found["findings"] = advice(view)["findings"]
            except HeadwaterError as error:
                found["findingsFailed"] = error.text
            except OSError as error:
                found["findingsFailed"] = access_failed(error).text
            except (ArithmeticError, ValueError, KeyError, TypeError):
                found["findingsFailed"] = "The figures cannot be worked out; the table's page may say more."
        self._glances[name] = state, found
        return found


def _newest_files(commits: Mapping[int, FileInfo]) -> list[FileInfo]:
    return [commits[version] for version in sorted(commits)[-2:]]


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def _local_children(path: str) -> Children:
    """The folders in a folder of this machine. Names that are not text are left out: no address can name them."""
    names, links = [], 0
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                entry.name.encode()
                if entry.is_symlink():
                    links += entry.is_dir()
                elif entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
            except (OSError, UnicodeEncodeError):  # a link in a circle, for one
                continue
    return Children(sorted(names), links)


class _Inside(StoreOver):
    """The local file system as far as it lies in a folder, whatever links and paths say. It only reads."""

    puts_if_absent = False

    def __init__(self, inner: Store, folder: str) -> None:
        super().__init__(inner)
        self.puts_if_absent = False
        self._folder = os.path.realpath(folder)

    def _check(self, path: str) -> None:
        if "\0" in path:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        real = os.path.realpath(path)
        if real != self._folder and not real.startswith(f"{self._folder.rstrip('/')}/"):
            reason = f"it leads out of the folder {self._folder}, whose tables are inspected"
            raise PermissionError(errno.EACCES, reason, path)

    def _checked(self, path: str) -> str:
        self._check(path)
        return path

    def _check_change(self, path: str) -> None:
        raise PermissionError(errno.EACCES, "the inspector only reads", path)

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        self._check(directory)
        return self.inner.list_from(directory, start_name)

    def following(self, paths: Iterable[str]) -> list[FileInfo] | None:
        return self.inner.following(self._checked(path) for path in paths)

    def read(self, path: str) -> bytes:
        self._check(path)
        return self.inner.read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self._check(path)
        return self.inner.read_range(path, offset, length)

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return self.inner.read_many([self._checked(path) for path in paths])

    def open_input(self, path: str) -> pa.NativeFile:
        self._check(path)
        return self.inner.open_input(path)

    def exists(self, path: str) -> bool:
        self._check(path)
        return self.inner.exists(path)

    def put_many(self, files: Any) -> None:
        raise PermissionError(errno.EACCES, "the inspector only reads", next(iter(files), ""))

    def make_directory(self, path: str) -> None:
        self._check_change(path)
