"""Which columns queries filter a table by: counted as they run, kept with the table, and read to propose clustering.

Owns the counts, their files below ``_headwater/predicates`` of the table, and what they add up to. Promises:

1. *No values.* What is kept is the physical path of a column, the kind of comparison, and counts. Neither a literal nor
   a query's text is.
2. *Cheap.* A scan costs an addition for each of its conjuncts. Files are written in the background, after the first
   minute and then each ten, and when Spark ends. Handlers that die lose the counts since then.
3. *Bounded.* At most :data:`_MOST_COLUMNS` columns of :data:`_MOST_TABLES` tables are counted, at most
   :data:`_MOST_FILES` files are there, and what is older than :data:`DAYS` days is deleted.
4. *No error.* A reader that may not write to the table counts for its own Spark alone.
5. *Only with consent.* A file is written only to a table that says ENABLE PREDICTIVE OPTIMIZATION, or that MAINTAIN
   TABLE has once maintained, which creates the folder, and never to one whose newest version says DISABLE. The setting
   ``spark.headwater.predicateUse`` turns it off.
6. *Once.* A file that adds up others names them, and these do not count beside it. So no count is doubled by two that
   add up at once, or by a store that refuses to delete. What could not be written stays with the process.

What it counts: a comparison with a literal, IN and LIKE prefixes of a conjunct; the keys of a MERGE; and, as the key of
a join, a column that Spark filters by IS NOT NULL alone. Under OR, a column counts if all branches are about it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from threading import Lock
from typing import Any

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.basics.recent import Recent
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.columns import Path
from headwater.pruning.predicates import (
    And,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    Year,
)
from headwater.schema import mapping
from headwater.statements.running.opening import CACHE
from headwater.statements.settings import PREDICATE_USE
from headwater.stores import Store
from headwater.transaction.maintenance import later

_LOG = logging.getLogger(__name__)

#: How a column is compared: with one value, with a range of values, or with the keys of a join.
EQUAL, RANGE, JOIN = "equal", "range", "join"
KINDS = (EQUAL, RANGE, JOIN)
#: Days that counts stay.
DAYS = 30
#: Chosen, not measured: limits of memory and of files, and seconds between two files of a table.
_MOST_TABLES, _MOST_COLUMNS, _MOST_FILES, _MOST_BYTES = 1000, 64, 200, 256 << 10
#: Files that one names which adds them up: their names have to fit into the bytes of a file.
_MOST_REPLACED = 500
#: The largest count: any more is damaged, and would be too large for a float.
_MOST_COUNT = 2**63 - 1
_FIRST_SECONDS, _SECONDS, _END_SECONDS = 60.0, 600.0, 0.5
_FOLDER = "_headwater/predicates"


@dataclass
class Uses:
    """The counts of a table.

    :param scans: scans with a filter that counts.
    :param bytes_read: the bytes of the files that these scans read after pruning.
    :param columns: by the physical path of a column, how many scans compared it, by :data:`KINDS`, and under ``bytes``
        the bytes that these scans read.
    """

    scans: int = 0
    bytes_read: int = 0
    columns: dict[Path, Counter[str]] = field(default_factory=dict)

    def add(self, other: Uses) -> None:
        """Add the counts of another."""
        self.scans += other.scans
        self.bytes_read += other.bytes_read
        for path, counted in other.columns.items():
            if path in self.columns or len(self.columns) < _MOST_COLUMNS:
                self.columns.setdefault(path, Counter()).update(counted)

    def to_json(self, table_id: str, replaced: Sequence[str] = ()) -> bytes:
        """The content of a file.

        :param replaced: the names of the files that it adds up.
        """
        columns = [
            {"path": list(path), **{kind: min(number, _MOST_COUNT) for kind, number in counted.items()}}
            for path, counted in self.columns.items()
        ]
        scans, size = min(self.scans, _MOST_COUNT), min(self.bytes_read, _MOST_COUNT)
        found = {"table": table_id, "scans": scans, "bytes": size, "columns": columns}
        if replaced:
            found["replaces"] = sorted(replaced)
        return json.dumps(found, separators=(",", ":")).encode()

    @staticmethod
    def from_json(data: bytes, table_id: str) -> Uses | None:
        """None for what is not of this table, or is damaged."""
        try:
            found = json.loads(data)
            if found["table"] != table_id:
                return None
            made = Uses(_count(found["scans"]), _count(found["bytes"]))
            for each in found["columns"][:_MOST_COLUMNS]:
                path = tuple(str(part) for part in each["path"])
                made.columns[path] = Counter({kind: _count(each.get(kind, 0)) for kind in (*KINDS, "bytes")})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return made


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_COUNT:
        raise ValueError(value)
    return value


@dataclass
class _Pending:
    """What is counted of a table and not written yet. No snapshot is held: it may be large.

    :param due: when a file is due, in seconds of the monotonic clock.
    :param store: that of the version that was read last.
    """

    due: float
    store: Store
    uses: Uses = field(default_factory=Uses)


_lock = Lock()
_pending: Recent[tuple[str, str], _Pending] = Recent(_MOST_TABLES)
#: What this process has counted, whether it could be written or not.
_counted: Recent[tuple[str, str], Uses] = Recent(_MOST_TABLES)


def note(
    snapshot: Snapshot,
    predicates: Sequence[Predicate],
    statement: Statement,
    read_bytes: int,
    keys: Iterable[str] = (),
) -> None:
    """Count what a scan filters by. It never fails.

    :param predicates: the scan's conjuncts.
    :param read_bytes: the bytes of the files that it reads after pruning.
    :param keys: columns that it compares with the keys of a source.
    """
    try:
        if PREDICATE_USE.of(statement) and not snapshot.store.is_provisional:
            _note(snapshot, predicates, read_bytes, keys)
    except Exception:
        _LOG.debug("%s: predicates were not counted", snapshot.table_path, exc_info=True)


def _note(snapshot: Snapshot, predicates: Sequence[Predicate], read_bytes: int, keys: Iterable[str]) -> None:
    kinds: dict[Path, str] = dict.fromkeys(((key,) for key in keys), JOIN)
    kinds |= compared(predicates)
    partitions = {name.lower() for name in snapshot.partition_columns}
    one = Uses(1, read_bytes)
    for path, kind in kinds.items():
        if path[0].lower() not in partitions:
            with contextlib.suppress(HeadwaterError):
                one.columns[mapping.physical_path(snapshot.schema, path)] = Counter({kind: 1, "bytes": read_bytes})
    if not one.columns or _is_disabled(snapshot):
        return
    now, key = time.monotonic(), (snapshot.table_path, snapshot.metadata.id)
    with _lock:
        pending = _pending.get(key)
        if pending is None:
            pending = _pending[key] = _Pending(now + _FIRST_SECONDS, snapshot.store)
        pending.store = snapshot.store
        pending.uses.add(one)
        if key not in _counted:
            _counted[key] = Uses()
        _counted[key].add(one)
        is_due = now >= pending.due
        if is_due:
            pending.due = now + _SECONDS
    if is_due:
        later(f"{snapshot.table_path}: the counts of predicates", lambda: _flush(key))


def compared(predicates: Sequence[Predicate]) -> dict[Path, str]:
    """The columns that conjuncts compare, each by its most selective kind; IS NOT NULL alone is a join's."""
    found: dict[Path, str] = {}
    for path, kind in (pair for predicate in predicates for pair in _compared(predicate)):
        if path not in found or KINDS.index(kind) < KINDS.index(found[path]):
            found[path] = kind
    return found


def _compared(predicate: Predicate) -> Iterator[tuple[Path, str]]:
    match predicate:
        case And(children):
            for child in children:
                yield from _compared(child)
        case Or(children):
            branches = [dict(_compared(child)) for child in children]
            for path in set.intersection(*map(set, branches)):
                yield path, max((branch[path] for branch in branches), key=KINDS.index)
        case Comparison(operator, left, right):
            kind = EQUAL if operator in ("=", "<=>") else RANGE
            for one, other in ((left, right), (right, left)):
                if isinstance(other, Literal):
                    yield from _about(one, kind)
        case In(child):
            yield from _about(child, EQUAL)
        case StartsWith(child) | Like(child):
            yield from _about(child, RANGE)
        case Not(IsNull(child)):
            yield from _about(child, JOIN)


def _about(operand: Any, kind: str) -> Iterator[tuple[Path, str]]:
    """The column that an operand is made of, if it is of one."""
    while isinstance(operand, Cast | Year):
        operand = operand.child
    if isinstance(operand, Column):
        yield operand.path, kind


def finish() -> None:
    """Write what is counted to tables of the local file system: other stores cannot be reached once Spark has ended."""
    end = time.monotonic() + _END_SECONDS
    for key, pending in list(_pending.items()):
        if pending.store.is_local and time.monotonic() < end:
            with contextlib.suppress(Exception):
                _flush(key)


def _flush(key: tuple[str, str]) -> None:
    """Write a file of what was counted, if the table's owner wants it."""
    with _lock:
        pending = _pending.get(key)
        if pending is None or not pending.uses.scans:
            return
        uses, pending.uses = pending.uses, Uses()
    table_path, table_id = key
    try:
        if _is_kept(pending.store, key):
            pending.store.put_many({_new_name(table_path): uses.to_json(table_id)})
    except (OSError, HeadwaterError) as error:
        _give_back(key, uses)
        _LOG.debug("%s: the counts of predicates were not written: %s", table_path, error)
    except BaseException:
        _give_back(key, uses)
        raise


def _give_back(key: tuple[str, str], uses: Uses) -> None:
    """Keep what could not be written, for the next time."""
    with _lock:
        if (pending := _pending.get(key)) is not None:
            pending.uses.add(uses)


def _is_disabled(snapshot: Snapshot) -> bool:
    return snapshot.definition.get(properties.PREDICTIVE_OPTIMIZATION) == "disable"


def _is_kept(store: Store, key: tuple[str, str]) -> bool:
    """Whether the newest version says so: a query may have read an older one."""
    table_path, table_id = key
    newest = CACHE.get(table_path, store)
    if newest.metadata.id != table_id or _is_disabled(newest):
        return False
    names = _names(store, table_path)
    if names is None:
        return newest.definition.get(properties.PREDICTIVE_OPTIMIZATION) == "enable"
    return len(names) < _MOST_FILES


def _new_name(table_path: str) -> str:
    return f"{_folder(table_path)}/{_day(0)}-{secrets.token_hex(8)}.json"


def _folder(table_path: str) -> str:
    return f"{table_path}/{_FOLDER}"


def _names(store: Store, table_path: str) -> list[str] | None:
    """The paths of the files, the oldest first; None without any, as some stores have no empty folders."""
    try:
        found = store.list_from(_folder(table_path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    return [file.path for file in found if file.path.endswith(".json") and file.size <= _MOST_BYTES] or None


def _day(ago: int) -> str:
    now = datetime.fromtimestamp(clock.milliseconds() / 1000, timezone.utc)
    return (now - timedelta(days=ago)).strftime("%Y-%m-%d")


def _kept(store: Store, paths: Sequence[str], table_id: str) -> tuple[dict[str, Uses], set[str]]:
    """What files say by path, each count once, and the names of all files that they add up. Of two that add up the same
    file, the one that adds up the most counts.
    """
    found = {}
    for path, data in zip(paths, store.read_many(paths), strict=True):
        if (one := Uses.from_json(data, table_id)) is not None:
            found[path] = one, _replaced(data)
    kept, gone = {}, set[str]()
    for path, (uses, replaced) in sorted(found.items(), key=lambda each: (-len(each[1][1]), each[0])):
        if _name(path) not in gone and not replaced & gone:
            kept[path] = uses
        gone |= replaced
    return kept, gone


def _replaced(data: bytes) -> set[str]:
    """The names of the files that a readable file adds up."""
    names = json.loads(data).get("replaces")
    return {each for each in names if isinstance(each, str)} if isinstance(names, list) else set()


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def uses_of(snapshot: Snapshot) -> Uses:
    """What is known of a table: what its files say of the last :data:`DAYS` days, and what this process has counted
    since it last wrote one. It never fails.
    """
    found, key = Uses(), (snapshot.table_path, snapshot.metadata.id)
    try:
        names = _names(snapshot.store, snapshot.table_path)
        recent = [path for path in names or () if _name(path) >= _day(DAYS)]
        for one in _kept(snapshot.store, recent[-_MOST_FILES:], snapshot.metadata.id)[0].values():
            found.add(one)
    except (OSError, HeadwaterError) as error:
        _LOG.debug("%s: the counts of predicates were not read: %s", snapshot.table_path, error)
        names = None
    with _lock:
        pending = _pending.get(key)
        own = _counted.get(key) if names is None else None if pending is None else pending.uses
        if own is not None:
            found.add(own)
    return found


def tidy(snapshot: Snapshot) -> None:
    """Add up the files of a table to one per day, delete what is old, and create the folder, so that counts are kept
    from here on, unless the table says DISABLE. What fails is left as it is.
    """
    if _is_disabled(snapshot):
        return
    store, path, table_id = snapshot.store, snapshot.table_path, snapshot.metadata.id
    try:
        names = _names(store, path)
        _write_own(store, (path, table_id), is_first=names is None)
        recent = [name for name in names or () if _name(name) >= _day(DAYS)]
        for day in sorted({_name(name)[:10] for name in recent}):
            _add_up(store, path, day, [name for name in recent if _name(name).startswith(day)], table_id)
        store.delete_many(path, [name for name in names or () if name not in recent])
    except (OSError, HeadwaterError) as error:
        _LOG.debug("%s: the counts of predicates were not added up: %s", path, error)


def _write_own(store: Store, key: tuple[str, str], *, is_first: bool) -> None:
    """Write what this process has counted: a file of its own, as another process may add up the same files now.

    :param is_first: whether there is no file, so that nothing of what this process has counted is in one.
    """
    mine, taken = Uses(), Uses()
    with _lock:
        if (pending := _pending.get(key)) is not None:
            taken, pending.uses = pending.uses, Uses()
        mine.add(_counted.get(key, Uses()) if is_first else taken)
    if mine.scans or is_first:
        try:
            store.put_many({_new_name(key[0]): mine.to_json(key[1])})
        except BaseException:
            _give_back(key, taken)
            raise


def _add_up(store: Store, table_path: str, day: str, names: Sequence[str], table_id: str) -> None:
    """Make one file of those of a day. Its name follows from theirs, so another process writes the same one."""
    names = names[:_MOST_REPLACED]
    kept, before = _kept(store, names, table_id)
    if len(kept) > 1:
        total = Uses()
        for one in kept.values():
            total.add(one)
        listed = sorted(map(_name, names))
        # Also what those had added up: a slow process may write such a sum again, late.
        replaced = [*listed, *sorted(before.difference(listed))][:_MOST_REPLACED]
        made = hashlib.sha256("/".join(listed).encode()).hexdigest()[:16]
        store.put_many({f"{_folder(table_path)}/{day}-{made}.json": total.to_json(table_id, replaced)})
        kept = {}
    store.delete_many(table_path, [name for name in names if name not in kept])
