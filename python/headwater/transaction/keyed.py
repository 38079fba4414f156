"""Row-level concurrency by keys: a MERGE that lost a race commits if the winners changed only rows with other keys.

Owns the check of which of a winner's changes concern rows that the MERGE could have read. If none does, the MERGE
commits without running again. Follows the protocol's chapters "Action Reconciliation" and "Deletion Vectors".

**What a MERGE depends on.** Let its ON condition hold ``t.k = e(s)`` as a conjunct, for one column ``k`` of the
target or several, where ``e(s)`` is an expression over the source alone. Let neither its source nor a subquery read
the target. Then a row of the target can match a row of the source only where its ``k`` is one of the values of
``e(s)``: the statement's *keys*. Rows with other keys have no part in what is updated, deleted or inserted, whatever
the rest of ON and the conditions of the clauses say, unless a WHEN NOT MATCHED BY SOURCE clause *selects* them: its
condition is true. So the statement gives the same result before and after any commit that adds and removes only rows
with other keys that no such clause selects.

Rows that have one of the keys do count, those too that no clause acted on: such a row matched, and so kept a row of
the source from being inserted; or it failed the rest of ON, and its next state may not.

**What a winner changed.** For each of its file actions that changes data, the rows that came or went:

- a file added under a new path: its rows, less those its deletion vector marks;
- a file removed and added again with another deletion vector: the rows that are in one vector and not in the other;
- a file removed: all rows that its deletion vector left.

An action is left out of the check for conflicts where none of these rows has one of the keys, and the partition
values and statistics show that no clause selects one. For the keys, statistics are asked first, then the key columns
of just these files are read. What is not known counts as a row with such a key: a file that cannot be read, is large
or lacks the column, values of types whose equality is not that of their bytes, or too many keys.

**What is not left out.** Files that this transaction removes, as it has copied their other rows. In files where it
marks rows deleted and the winner marked others, both vectors are united (:mod:`headwater.transaction.row_level`), but
only where the winner's rows have none of the keys. Rows there that a clause selects need no check: those without a
match are all marked by this transaction, and two marks of one row are a conflict. Every other rule of
:mod:`headwater.transaction.conflicts` holds as ever, and the isolation level keeps its meaning: what is left out
leaves the same result in the order of the versions, as ``Serializable`` asks.

Equality is compared exactly: whole numbers, decimals, strings without collation or padding, dates and timestamps
since the calendars agree. A null key equals nothing; rows and keys with one never match.
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.key_index.hashing import EARLIEST, kind_of
from headwater.log import deletion_vectors
from headwater.log.files import canonical_path
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import AddFile, DeletionVector, RemoveFile
from headwater.protocol.column_metadata import COLUMN_ID
from headwater.protocol.types import INTEGERS, DataType, DecimalType, PrimitiveType, StructField
from headwater.stores import absolute_path
from headwater.transaction.conflicts import WinningCommit
from headwater.transaction.reads import alone

_LOG = logging.getLogger(__name__)

#: Files with more bytes or rows are not read for the check: running the statement again is not much slower then. The
#: keys of a file with so many rows are read and compared in half a second (bench case ``key-rows``).
_LARGEST_FILE_BYTES = 256 << 20
_MOST_ROWS = 4_000_000
#: The key columns of at most this many files of one winner are read (bench case ``key-files``).
_MOST_FILES = 200

#: Before 1582-10-15 and 1900-01-01, old writers of Parquet files used another calendar and other zones.
_FIRST_DAY, _FIRST_MICROSECOND = EARLIEST["date"], EARLIEST["timestamp"]

#: Distinct keys, each with a value for each column: an int (days and microseconds too), or a str (decimals too).
Keys = Collection[Sequence[Any]]


def comparable(column: StructField) -> bool:
    """Whether two values of a column are equal if, and only if, what files hold is the same."""
    return kind_of(column) is not None


def keys_at(snapshot: Snapshot, columns: Sequence[str], path: str, positions: Sequence[int]) -> list[tuple[Any, ...]]:
    """The keys of some rows of a data file.

    :param columns: as of :class:`KeyReads`, ``path``: the file's in the log.
    :raises OSError: the file cannot be read.
    :raises ValueError: it lacks a column, or has values that cannot be compared.
    """
    known = [_Column.of(snapshot, name, ()) for name in columns]
    with snapshot.store.open_input(absolute_path(snapshot.table_path, path)) as opened:
        file = pq.ParquetFile(opened)
        names = [column and column.found_in(file.schema_arrow) for column in known]
        if None in names:
            raise ValueError(f"{path} lacks a column of the key")
        read = file.read(columns=[str(name) for name in names], use_threads=False).take(pa.array(positions))
    values = [column.of_file(read[str(name)]) for column, name in zip(known, names, strict=True) if column is not None]
    return list(zip(*(each.to_pylist() for each in values), strict=True))


class KeyReads:
    """What a MERGE read: the rows with one of its keys.

    :param columns: the names of key columns of the snapshot, :func:`comparable`, no partition columns; at least one.
    :param load: the keys; None if they are not known. Called at most once, and only where the answer matters.
    """

    def __init__(self, snapshot: Snapshot, columns: Sequence[str], load: Callable[[], Keys | None]) -> None:
        self._snapshot = snapshot
        self._names = columns
        self._load = load
        self._positions: dict[str, BitMap64 | None] = {}
        self._files_read = 0
        #: The files of the winner being checked that their statistics exclude; None until they are needed.
        self._excluded: frozenset[str] | None = None

    def learn(self) -> None:
        """Ask for the keys now, as whoever knows them may not be there any more when the answer matters."""
        _ = self._keys

    def after(
        self,
        winner: WinningCommit,
        removed: Collection[str] = (),
        marked: Collection[str] = (),
        excluded: Collection[str] = (),
        selected: Collection[str] = (),
        *,
        appends: bool = True,
    ) -> tuple[WinningCommit, frozenset[str]]:
        """What of a winner concerns this statement: the winner without the actions on rows of other keys.

        :param removed: canonical paths of the files this transaction removes.
        :param marked: those in which it marks rows deleted.
        :param excluded: those of the winner's files that hold no row which was read, whatever their keys.
        :param selected: those that may hold rows which count without a key, as a clause WHEN NOT MATCHED BY SOURCE
            selects them.
        :param appends: whether files the winner added are a conflict at all.
        :returns: the rest of the winner, and those of ``marked`` if it changed rows with one of the keys.
        """
        if not (winner.adds or winner.removes) or winner.metadata is not None or winner.protocol is not None:
            return winner, frozenset()
        self._files_read = 0
        self._excluded = None
        again = {canonical_path(file.path): file for file in winner.adds}
        left_out: set[str] = set()
        disputed: set[str] = set()
        gone = set()
        for file in winner.removes:
            path = canonical_path(file.path)
            gone.add(path)
            if not file.data_change or path in removed:
                continue
            if path in marked:
                if path not in again or self._concern(winner, file, again[path]):
                    disputed.add(path)
            elif path not in selected and (path in excluded or not self._concern(winner, file, again.get(path))):
                left_out.add(path)
        for path, added in again.items():
            if path in gone or not added.data_change or not appends:
                continue
            if path not in selected and (path in excluded or not self._concern(winner, None, added)):
                left_out.add(path)
        if not left_out:
            return winner, frozenset(disputed)
        rest = replace(
            winner,
            adds=[file for file in winner.adds if canonical_path(file.path) not in left_out],
            removes=[file for file in winner.removes if canonical_path(file.path) not in left_out],
        )
        return rest, frozenset(disputed)

    def added_by(self, winner: WinningCommit) -> Sequence[AddFile]:
        """The files in which a winner may have added rows with one of the keys."""
        again = {canonical_path(file.path) for file in winner.adds}
        adding = [file for file in winner.removes if canonical_path(file.path) in again]
        left, _ = self.after(replace(winner, removes=adding, metadata=None, protocol=None))
        return [file for file in left.adds if file.data_change]

    def _concern(self, winner: WinningCommit, before: RemoveFile | None, after: AddFile | None) -> bool:
        """Whether rows with one of the keys came or went between two states of a file; None: it was not there."""
        file = after or before
        assert file is not None
        if self._keys is None:
            return True
        if self._excluded is None:
            self._excluded = self._excluded_files(winner)
        if not self._keys or canonical_path(file.path) in self._excluded:
            return False
        positions = self._with_keys(file)
        if positions is None:
            return True
        try:
            marked = [
                self._marked(state.deletion_vector) for state in (before, after) if state is not None and positions
            ]
        except (OSError, HeadwaterError):
            return True
        if len(marked) == 2:
            return bool(positions & (marked[0] ^ marked[1]))
        return bool(positions.difference(*marked))

    def _marked(self, vector: DeletionVector | None) -> BitMap64:
        if vector is None:
            return BitMap64()
        return deletion_vectors.read(vector, self._snapshot.table_path, self._snapshot.store)

    def _excluded_files(self, winner: WinningCommit) -> frozenset[str]:
        """Canonical paths of a winner's files that have no row with one of the keys, as their statistics show."""
        from headwater.pruning.bounds import plain  # imported where used: plain appends never load it

        changed: list[AddFile | RemoveFile] = [*winner.removes, *winner.adds]
        files = {canonical_path(file.path): file for file in changed}
        # Statistics are read as pruning reads them, so that both trust the same bounds.
        described = [AddFile(file.path, {}, 0, 0, True, file.stats) for file in files.values()]
        leaves = [(column.physical,) for column in self._columns]
        statistics = alone(self._snapshot, described).statistics(leaves)
        excluded: set[str] = set()
        for i, column in enumerate(self._columns):
            if column.ordered:
                bounds = zip(
                    files, *(plain(statistics[f"{kind}.{i}"]).to_pylist() for kind in ("min", "max")), strict=True
                )
                excluded.update(path for path, least, greatest in bounds if column.is_beyond(least, greatest))
        return frozenset(excluded)

    def _with_keys(self, file: AddFile | RemoveFile) -> BitMap64 | None:
        """The positions of the rows that have one of the keys, those marked deleted among them; None: not known."""
        path = canonical_path(file.path)
        if path not in self._positions:
            self._files_read += 1
            known = self._files_read <= _MOST_FILES and (file.size or 0) <= _LARGEST_FILE_BYTES
            self._positions[path] = self._look_into(file.path) if known else None
        return self._positions[path]

    def _look_into(self, path: str) -> BitMap64 | None:
        snapshot = self._snapshot
        try:
            with snapshot.store.open_input(absolute_path(snapshot.table_path, path)) as opened:
                return self._positions_in(pq.ParquetFile(opened))
        except (OSError, ValueError, HeadwaterError, pa.ArrowException) as error:
            _LOG.debug("%s: the keys of %s cannot be read: %s", snapshot.table_path, path, error)
            return None

    def _positions_in(self, file: pq.ParquetFile) -> BitMap64 | None:
        if file.metadata.num_rows > _MOST_ROWS:
            return None
        names = [column.found_in(file.schema_arrow) for column in self._columns]
        if None in names:
            return None
        read = file.read(columns=[str(name) for name in names], use_threads=False)
        held = [column.of_file(read[str(name)]) for column, name in zip(self._columns, names, strict=True)]
        found = None
        for column, values in zip(self._columns, held, strict=True):
            wanted = pa.array(column.values, values.type)
            mask = pc.and_(pc.is_valid(values), pc.is_in(values, value_set=wanted))
            found = mask if found is None else pc.and_(found, mask)
        positions = pc.indices_nonzero(found)
        if len(held) > 1:
            tuples = zip(*(values.take(positions).to_pylist() for values in held), strict=True)
            both = [key in self._distinct for key in tuples]
            positions = positions.filter(pa.array(both, pa.bool_()))
        return BitMap64(positions.to_pylist())

    @cached_property
    def _loaded(self) -> tuple[Keys | None, list[_Column]]:
        keys = self._load()
        if keys is None:
            return None, []
        columns = [_Column.of(self._snapshot, name, [key[i] for key in keys]) for i, name in enumerate(self._names)]
        known = [column for column in columns if column is not None]
        return (keys, known) if len(known) == len(columns) else (None, [])

    @property
    def _keys(self) -> Keys | None:
        return self._loaded[0]

    @property
    def _columns(self) -> list[_Column]:
        return self._loaded[1]

    @cached_property
    def _distinct(self) -> frozenset[tuple[Any, ...]]:
        assert self._keys is not None
        return frozenset(
            tuple(column.plain(value) for column, value in zip(self._columns, key, strict=True)) for key in self._keys
        )


@dataclass(frozen=True)
class _Column:
    """A key column. ``values``: the keys' distinct values of it; ``ordered``: the same in order, where statistics keep
    that order."""

    type: DataType
    physical: str
    field_id: str | None
    values: Sequence[Any]
    ordered: Sequence[Any]

    @staticmethod
    def of(snapshot: Snapshot, name: str, values: Sequence[Any]) -> _Column | None:
        """None for values or columns that cannot be compared."""
        field = snapshot.schema.find(name)
        if field is None or not comparable(field):
            return None
        by_id = snapshot.definition.mapping_mode == "id"
        field_id = str(field.metadata.get(COLUMN_ID)) if by_id else None
        column = _Column(field.type, field.physical_name, field_id, (), ())
        try:
            distinct = {column.plain(value) for value in values}
        except (ArithmeticError, ValueError):
            return None
        if column._first is not None and any(value < column._first for value in distinct):
            return None
        ordered = sorted(distinct) if column._is_whole or column._is("string") else ()
        return replace(column, values=list(distinct), ordered=ordered)

    def _is(self, name: str) -> bool:
        return isinstance(self.type, PrimitiveType) and self.type.name == name

    @property
    def _is_whole(self) -> bool:
        return isinstance(self.type, PrimitiveType) and self.type.name in INTEGERS

    @property
    def _first(self) -> int | None:
        """The least value that all writers write alike."""
        return _FIRST_DAY if self._is("date") else _FIRST_MICROSECOND if self._is("timestamp") else None

    def plain(self, value: Any) -> Any:
        """A value of a key as :meth:`of_file` has those of files."""
        return Decimal(value) if isinstance(self.type, DecimalType) else value

    def is_beyond(self, least: Any, greatest: Any) -> bool:
        """Whether no key lies between two bounds; False if one is not known."""
        if least is None or greatest is None:
            return False
        from headwater.pruning.bounds import may_be_cut_off_from  # imported where used: plain appends never load it

        first = bisect.bisect_left(self.ordered, least)
        if first == len(self.ordered):
            return True
        # If the first key does not begin with a cut-off maximum, no later one does: those that do sort before the rest.
        key = self.ordered[first]
        return bool(key > greatest and not (self._is("string") and may_be_cut_off_from(key, greatest)))

    def found_in(self, schema: pa.Schema) -> str | None:
        """The name the column has in a file; None if it is not there exactly once."""
        if self.field_id is not None:
            names = [f.name for f in schema if (f.metadata or {}).get(b"PARQUET:field_id") == self.field_id.encode()]
        else:
            names = [f.name for f in schema if f.name.lower() == self.physical.lower()]
        # PyArrow takes a dot for a field of a struct.
        return names[0] if len(names) == 1 and "." not in names[0] else None

    def of_file(self, values: pa.ChunkedArray) -> pa.Array:
        """The values a file holds, as ints, strings or decimals.

        :raises ValueError: they are not what the table's column says, or cannot be compared.
        """
        kind = values.type
        if self._is("timestamp"):
            if not (pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz is not None):
                raise ValueError(f"timestamps as {kind}")
            plain = values.cast(pa.int64())
        elif self._is("date"):
            if not pa.types.is_date32(kind):
                raise ValueError(f"dates as {kind}")
            plain = values.cast(pa.int32()).cast(pa.int64())
        elif self._is_whole:
            if not pa.types.is_signed_integer(kind):
                raise ValueError(f"whole numbers as {kind}")
            plain = values.cast(pa.int64())
        elif isinstance(self.type, DecimalType):
            plain = values.cast(pa.decimal128(38, self.type.scale))
        else:
            plain = values.cast(pa.string())
        if self._first is not None:
            least = pc.min(plain).as_py()
            if least is not None and least < self._first:
                raise ValueError("a value before the calendars agree")
        return plain.combine_chunks()
