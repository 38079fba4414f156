"""The footers of files that become a Delta table: their columns and their statistics.

Owns the table's columns, those of all files together or those of the catalog, and what of a file's footer counts for
the statistics of a column of the table. Follows the protocol's chapter "Per-file Statistics". Tasks read the footers,
each once; a second time only where a column of the table with statistics lies beyond the first ones of a file.
Promises: a file that does not fit is an error that names it; a bound that is not surely one of the column's is left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import FileFooter
from headwater.bridge.statement import Statement
from headwater.log.statistics.writing import statistics_json
from headwater.protocol.column_metadata import EXISTS_DEFAULT
from headwater.protocol.columns import leaves, map_fields
from headwater.protocol.types import (
    INTEGERS,
    DataType,
    PrimitiveType,
    StructType,
    as_nullable,
    parse_schema,
)
from headwater.schema.union import check_distinct, check_readable, union
from headwater.statements.running.opening import Location
from headwater.statements.settings import IGNORE_CORRUPT_FILES
from headwater.statements.tables.converted_files import FoundFile, not_usable

#: Footers that one job reads, which bounds the memory for its answer.
_AT_ONCE = 20_000
_NULL = "null"

Path = tuple[str, ...]


class ReadFooters:
    """The files that can be read, with their footers.

    :param most: of how many leaf columns of each file the footers are to give statistics; all if negative.
    :param named: makes of a file's columns those that count; a ``ValueError`` says why it cannot.
    :param refused: the error for a file, given as its path and why; then damaged files are never left out.
    :raises HeadwaterError: ``HEADWATER_CONVERT_FILE_NOT_USABLE``, ``HEADWATER_CONVERT_NO_FILES``.
    """

    def __init__(
        self,
        files: Sequence[FoundFile],
        location: Location,
        statement: Statement,
        most: int,
        named: Callable[[StructType], StructType] | None = None,
        refused: Callable[[str, str], HeadwaterError] | None = None,
    ) -> None:
        self._location, self._statement, self._most = location, statement, most
        self.files: list[FoundFile] = []
        self._footers: list[FileFooter] = []
        self._numbers: list[int] = []
        #: The columns of files as Spark reads them, by number.
        self._schemas: list[StructType] = []
        #: The same as the files have them.
        self.stored: list[StructType] = []
        numbers: dict[str, int] = {}
        problems: list[str | None] = []
        ignores = refused is None and IGNORE_CORRUPT_FILES.of(statement)
        self._refused = refused or (lambda path, reason: not_usable(path, location, reason))
        for start in range(0, len(files), _AT_ONCE):
            some = files[start : start + _AT_ONCE]
            statement.check_cancelled()
            statement.step(f"read the footers of {len(files)} files")
            answer = statement.footers(location.path, self._places(some), None, most)
            for text in answer.schemas:
                if text not in numbers:
                    numbers[text] = len(self._schemas)
                    stored = parse_schema(text)
                    found, problem = _counting(stored, named or _as_data)
                    self.stored.append(stored)
                    self._schemas.append(found)
                    problems.append(problem)
            for file, footer in zip(some, answer.files, strict=True):
                number = numbers[answer.schemas[footer.schema]] if footer.problem is None else -1
                if footer.problem is None and (problem := problems[number]) is not None:
                    raise self._refused(file.path, problem)
                if footer.problem is None:
                    self.files.append(file)
                    self._footers.append(footer)
                    self._numbers.append(number)
                elif not ignores:
                    raise self._refused(file.path, f"its footer cannot be read ({footer.problem})")
        if not self.files:
            raise HeadwaterError("HEADWATER_CONVERT_NO_FILES", {"path": location.path})

    def _places(self, files: Sequence[FoundFile]) -> list[tuple[str, int]]:
        return [(f"{self._location.path}/{file.path}", file.size) for file in files]

    def union(self, partitions: StructType) -> StructType:
        """The columns of all files together, and the partition columns: where files have them, in their places.

        :raises HeadwaterError: ``DELTA_FAILED_MERGE_SCHEMA_FILE``.
        """
        own = {field.name.lower(): field for field in partitions}
        merged = StructType(())
        for number, path in self._first_of_each().items():
            file = StructType(tuple(f for f in self._schemas[number] if f.name.lower() not in own))
            try:
                check_distinct(self._schemas[number])
                merged = union(merged, file)
            except ValueError as error:
                raise self._misfit(path, number, str(error)) from None
        fields = list(merged)
        taken: set[str] = set()
        # A partition column that files also have has the place that it has in the first of them.
        for number in self._first_of_each():
            for place, field in enumerate(self._schemas[number]):
                key = field.name.lower()
                if key in own and key not in taken:
                    taken.add(key)
                    fields.insert(min(place, len(fields)), own[key])
        return StructType((*fields, *(field for key, field in own.items() if key not in taken)))

    def check(self, schema: StructType, partitions: StructType) -> None:
        """Check that every file can be read by a schema.

        :raises HeadwaterError: ``DELTA_FAILED_MERGE_SCHEMA_FILE``.
        """
        own = {field.name.lower() for field in partitions}
        data = StructType(tuple(field for field in schema if field.name.lower() not in own))
        for number, path in self._first_of_each().items():
            stored = self._schemas[number]
            try:
                check_readable(data, stored)
                for field in data:
                    default = field.metadata.get(EXISTS_DEFAULT)
                    if stored.find(field.name) is None and str(default or _NULL).lower() != _NULL:
                        raise ValueError(f"it lacks the column {field.name}, whose default {default} Spark reads there")
            except ValueError as error:
                raise self._misfit(path, number, str(error)) from None

    def _first_of_each(self) -> dict[int, str]:
        """The numbers of the files' columns in the order of the files, and the first file of each."""
        found: dict[int, str] = {}
        for file, number in zip(self.files, self._numbers, strict=True):
            found.setdefault(number, file.path)
        return found

    def _misfit(self, path: str, number: int, reason: str) -> HeadwaterError:
        return HeadwaterError(
            "DELTA_FAILED_MERGE_SCHEMA_FILE",
            {"file": f"{self._location.path}/{path}", "schema": self._schemas[number].sql(), "reason": reason},
        )

    @property
    def rows(self) -> list[int]:
        """How many rows each file has."""
        return [footer.rows for footer in self._footers]

    def statistics(
        self, columns: Sequence[tuple[Path, DataType]], tight_bounds: Sequence[bool | None] | None = None
    ) -> list[str]:
        """The statistics of each file, as the log has them, for some leaf columns of the table.

        :param tight_bounds: for each file, what its statistics say; nothing where None.
        """
        tight = [None] * len(self._footers) if tight_bounds is None else tight_bounds
        places = [_Places(schema, columns, self._most) for schema in self._schemas]
        again = [at for at, number in enumerate(self._numbers) if places[number].is_short]
        more: dict[int, FileFooter] = {}
        for start in range(0, len(again), _AT_ONCE):
            some = again[start : start + _AT_ONCE]
            files = self._places([self.files[at] for at in some])
            self._statement.step(f"read the footers of {len(again)} files again")
            answer = self._statement.footers(self._location.path, files, [path for path, _ in columns])
            for at, footer in zip(some, answer.files, strict=True):
                if footer.problem is not None:
                    path = self.files[at].path
                    raise self._refused(path, f"its footer cannot be read ({footer.problem})")
                more[at] = footer
        return [
            statistics_json(footer.rows, columns, places[number].values(footer, more.get(at)), tight_bounds=tight[at])
            for at, (footer, number) in enumerate(zip(self._footers, self._numbers, strict=True))
        ]


def _counting(schema: StructType, named: Callable[[StructType], StructType]) -> tuple[StructType, str | None]:
    """The columns of a file that count, and what is wrong with them."""
    try:
        return named(schema), None
    except ValueError as error:
        return schema, str(error)


def _as_data(schema: StructType) -> StructType:
    """The columns of a file without what its writer's table said of them, but for comments."""
    kept = map_fields(schema, lambda f, _: replace(f, metadata={k: v for k, v in f.metadata.items() if k == "comment"}))
    nullable = as_nullable(kept)
    assert isinstance(nullable, StructType)
    return nullable


class _Places:
    """Where the columns of the table are among the leaves of a file.

    :param known: of how many leaves a footer gives statistics.
    """

    def __init__(self, schema: StructType, columns: Sequence[tuple[Path, DataType]], known: int) -> None:
        stored: dict[Path, tuple[int, DataType]] = {}
        groups: set[Path] = set()
        for at, leaf in enumerate(leaves(schema)):
            path = _folded(leaf.path)
            stored[path] = (at, leaf.type)
            groups.update(path[:length] for length in range(1, len(path)))
        self._columns: list[tuple[int | None, bool, bool]] = []
        self.is_short = False
        for path, kind in columns:
            place: int | None = None
            found: DataType | None = None
            if (known_leaf := stored.get(_folded(path))) is not None:
                place, found = known_leaf
            is_missing = place is None and _folded(path) not in groups and not _lies_below(_folded(path), stored)
            self._columns.append((place, is_missing, _has_bounds_of(found, kind)))
            self.is_short |= place is not None and 0 <= known <= place

    def values(self, footer: FileFooter, again: FileFooter | None) -> list[Sequence[Any]]:
        """Minimum, maximum and null count of each column of the table."""
        found: list[Sequence[Any]] = []
        for number, (place, is_missing, is_of_type) in enumerate(self._columns):
            if is_missing:
                found.append((None, None, footer.rows))
            elif place is None:
                found.append((None, None, None))
            else:
                low, high, nulls = footer.statistics[place] if again is None else again.statistics[number]
                found.append((low, high, nulls) if is_of_type else (None, None, nulls))
        return found


def _folded(path: Path) -> Path:
    return tuple(name.lower() for name in path)


def _lies_below(path: Path, stored: Mapping[Path, Any]) -> bool:
    """Whether a file has a leaf where the table has a struct with the column."""
    return any(path[:length] in stored for length in range(1, len(path)))


def _has_bounds_of(stored: DataType | None, kind: DataType) -> bool:
    """Whether the bounds of a file's column are those of the table's."""
    return stored == kind or all(isinstance(each, PrimitiveType) and each.name in INTEGERS for each in (stored, kind))
