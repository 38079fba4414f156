"""Changelogs without Spark and without a JVM: the changes of a table as Arrow, from its log and files.

    import headwater.changelog
    for batch in headwater.changelog.read("/data/rivers", starting_version=3):
        ...

Owns the order of the rows and the pairs of images, as :mod:`headwater.change_data.changelog` defines them; Spark's
``table_changelog`` has the same rows. Promises: the batches come in the order in which their rows apply; memory holds
the change files of a commit if they are small, otherwise a batch; if pairs are found by keys, the images of one commit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from headwater.basics.errors import HeadwaterError
from headwater.change_data.bounds import Bound, resolve
from headwater.change_data.changelog import (
    CHANGE_TYPE,
    CLASS_SHIFT,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    ORDINAL,
    PAIRED_BY_KEYS,
    ROW_KIND,
    ROW_KIND_CODE,
    RowKind,
    check_names,
    file_order,
    key_columns,
    unpaired_advice,
)
from headwater.change_data.feed import ChangeFeed, open_feed
from headwater.change_data.files import ChangedFile
from headwater.change_data.kinds_in_files import versions_with_unpaired_images
from headwater.change_data.rows import ChangedRows, ChangeReader, of_kinds
from headwater.log.history import CommitTimes
from headwater.log.segment import list_log
from headwater.log.snapshot import load_snapshot
from headwater.protocol.types import StructField
from headwater.stores import Store, store_for
from headwater.stores.arrow import ArrowStore

_OWN = (
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(COMMIT_VERSION, pa.int64()),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", tz="UTC")),
    pa.field(ROW_KIND, pa.string()),
    pa.field(ROW_KIND_CODE, pa.int8()),
    pa.field(ORDINAL, pa.int64()),
)
#: The bytes of a commit's change files up to which their rows are kept, and not read again for each class.
_KEPT_BYTES = 32 << 20
_BEFORE, _AFTER = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER


def read(
    path: str,
    *,
    starting_version: int | None = None,
    ending_version: int | None = None,
    starting_timestamp: datetime | None = None,
    ending_timestamp: datetime | None = None,
    keys: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = 65_536,
    filesystem: pafs.FileSystem | None = None,
) -> pa.RecordBatchReader:
    """The changes of a table's versions, in the order in which they apply.

    The range and its files are fixed by this call; the files are read while the batches are taken.

    :param path: the table, on the local file system; with ``filesystem``, its path there (``bucket/table``), with or
        without a scheme before it (``s3://bucket/table``).
    :param starting_version: the first version, or ``starting_timestamp``: the first commit that is not before it.
    :param ending_version: the last version, or ``ending_timestamp``: the last commit that is not after it; by default
        the newest. A time without a zone is one of the local zone.
    :param keys: columns that find the pairs of updates in files that do not say which images are pairs.
    :param columns: the columns to read, of the table's and the changelog's own; by default all, in their order.
    :param batch_rows: the most rows of a batch.
    :param filesystem: one of pyarrow's, such as ``pyarrow.fs.S3FileSystem(region="eu-central-1")``.
    :returns: an iterator of record batches with a ``schema``. After the table's columns: ``_change_type``,
        ``_commit_version``, ``_commit_timestamp``, ``_row_kind`` (``+I``, ``-U``, ``+U``, ``-D``), ``_row_kind_code``
        (0 to 3) and ``_ordinal``.
    :raises headwater.basics.errors.HeadwaterError: ``DELTA_TABLE_NOT_FOUND``, ``DELTA_MISSING_CHANGE_DATA``,
        ``DELTA_NO_START_FOR_CDC_READ``, ``DELTA_MULTIPLE_CDC_BOUNDARY``, ``DELTA_INVALID_CDC_RANGE`` and others of a
        range; ``HEADWATER_CHANGELOG_NEEDS_FILE_SYSTEM`` for a path that is not local, without ``filesystem``;
        ``HEADWATER_KEY_COLUMN_NOT_FOUND``, ``HEADWATER_CHANGELOG_COLUMN_NOT_FOUND``; while batches are taken,
        ``DELTA_CHANGE_DATA_FILE_NOT_FOUND``.
    """
    start = _bound("starting", starting_version, starting_timestamp)
    end = _bound("ending", ending_version, ending_timestamp)
    if start is None:
        raise HeadwaterError("DELTA_NO_START_FOR_CDC_READ", {})
    store, table_path = _located(path, filesystem)
    snapshot = load_snapshot(table_path, store)
    snapshot.check_readable()
    times = CommitTimes(list_log(table_path, store), snapshot.metadata, store, snapshot.version)
    versions = resolve(start, end, times, snapshot.version)
    feed = None
    if versions is not None:
        feed = open_feed(versions, snapshot, times, partial(load_snapshot, table_path, store), "endVersion")
    schema = snapshot.schema if feed is None else feed.definition.schema
    check_names(schema, table_path)
    by = [] if keys is None else key_columns(keys, schema, table_path)
    every = [*(pa.field(field.name, field.type.to_arrow()) for field in schema), *_OWN]
    shape = pa.schema(every if columns is None else [_named(name, every, table_path) for name in columns])
    if feed is None:
        return pa.RecordBatchReader.from_batches(shape, [])
    if not by and (unpaired := versions_with_unpaired_images(feed.files, table_path, store)):
        warnings.warn(unpaired_advice(table_path, unpaired), stacklevel=2)
    needed = {name.lower() for name in (*shape.names, *by)}
    fields = [field for field in schema if field.name.lower() in needed]
    reader = ChangeReader(table_path, store, feed.definition, fields, batch_rows)
    return pa.RecordBatchReader.from_batches(shape, _batches(reader, feed, fields, by, shape, batch_rows))


def _located(path: str, filesystem: pafs.FileSystem | None) -> tuple[Store, str]:
    if filesystem is not None:
        store = ArrowStore(filesystem)
        return store, store.uri(path)
    try:
        return store_for(path)
    except HeadwaterError as error:
        if error.condition != "DELTA_UNSUPPORTED_FILE_SYSTEM":
            raise
        raise HeadwaterError("HEADWATER_CHANGELOG_NEEDS_FILE_SYSTEM", {"path": path}) from None


def _bound(side: str, version: int | None, timestamp: datetime | None) -> Bound | None:
    if version is not None and timestamp is not None:
        raise HeadwaterError("DELTA_MULTIPLE_CDC_BOUNDARY", {"startingOrEnding": side})
    if timestamp is not None:
        since = timestamp.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
        return Bound(timestamp=(since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
    if version is None:
        return None
    if version < 0:
        raise HeadwaterError("DELTA_VERSION_INVALID", {"version": version})
    return Bound(version=version)


def _named(name: str, fields: Sequence[pa.Field], table: str) -> pa.Field:
    found = next((field for field in fields if field.name.lower() == name.lower()), None)
    if found is None:
        names = ", ".join(field.name for field in fields)
        raise HeadwaterError(
            "HEADWATER_CHANGELOG_COLUMN_NOT_FOUND", {"columnName": name, "tableName": table, "columns": names}
        )
    return found


def _batches(
    reader: ChangeReader,
    feed: ChangeFeed,
    fields: Sequence[StructField],
    keys: Sequence[str],
    shape: pa.Schema,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    names = [field.name for field in fields]
    for version, files in groupby(feed.files, lambda file: file.version):
        commit = _Commit(reader, names, keys, sorted(files, key=lambda file: file.number))
        for rows, ordinals in commit.in_order():
            batch = _batch(rows, ordinals, names, version, feed.timestamps[version], shape)
            for start in range(0, batch.num_rows, batch_rows):
                yield batch.slice(start, batch_rows)


def _batch(
    rows: ChangedRows, ordinals: np.ndarray, names: Sequence[str], version: int, timestamp: int, shape: pa.Schema
) -> pa.RecordBatch:
    count = len(rows)
    kinds = list(RowKind)
    numbers = pc.index_in(rows.change_types, pa.array([kind.change_type for kind in kinds]))
    columns = dict(zip(names, rows.columns, strict=True))
    own = {
        CHANGE_TYPE: lambda: rows.change_types,
        COMMIT_VERSION: lambda: pa.repeat(pa.scalar(version, pa.int64()), count),
        COMMIT_TIMESTAMP: lambda: pa.repeat(pa.scalar(timestamp * 1000, pa.timestamp("us", tz="UTC")), count),
        ROW_KIND: lambda: pa.array([kind.text for kind in kinds]).take(numbers),
        ROW_KIND_CODE: lambda: pa.array([kind.code for kind in kinds], pa.int8()).take(numbers),
        ORDINAL: lambda: pa.array(ordinals, pa.int64()),
    }
    arrays = [own[name]() if name in own else columns[name] for name in shape.names]
    return pa.RecordBatch.from_arrays(arrays, schema=shape)


class _Commit:
    """The changed files of a commit, and their rows in order: class by class, and file by file in each."""

    def __init__(
        self, reader: ChangeReader, names: Sequence[str], keys: Sequence[str], files: Sequence[ChangedFile]
    ) -> None:
        self._reader = reader
        self._keys = [names.index(key) for key in keys]
        self._files = files
        self._paired = [file for file in files if file.is_paired]
        self._unpaired = [file for file in files if file.has_unknown_pairs]
        #: The rows of change files, by number; files that are large are read again for each class.
        self._kept: dict[int, list[ChangedRows]] = {}
        self._keeps = sum(file.size for file in files if file.change_type is None) <= _KEPT_BYTES

    def in_order(self) -> Iterator[tuple[ChangedRows, np.ndarray]]:
        """Rows with their ordinals."""
        yield from self._read(self._files, RowKind.DELETE)
        if self._keys and self._unpaired:
            images = self._by_keys()
            yield from images[:1]
            yield from self._read(self._paired, _BEFORE, _AFTER, is_paired=True)
            yield from images[1:]
        else:
            yield from self._read(self._unpaired, _BEFORE)
            yield from self._read(self._paired, _BEFORE, _AFTER, is_paired=True)
            yield from self._read(self._unpaired, _AFTER)
        yield from self._read(self._files, RowKind.INSERT)

    def _read(
        self, files: Sequence[ChangedFile], *kinds: RowKind, is_paired: bool = False
    ) -> Iterator[tuple[ChangedRows, np.ndarray]]:
        base = kinds[0].row_class(is_paired=is_paired)
        for file in files:
            for rows in self._rows(file, kinds):
                yield rows, rows.positions + (base + file_order(file.number))

    def _rows(self, file: ChangedFile, kinds: Sequence[RowKind]) -> Iterator[ChangedRows]:
        if file.change_type is not None or not self._keeps:
            return self._reader.read(file, kinds)
        if file.number not in self._kept:
            self._kept[file.number] = list(self._reader.read(file, list(RowKind)))
        return (some for rows in self._kept[file.number] if len(some := of_kinds(rows, kinds)))

    def _by_keys(self) -> list[tuple[ChangedRows, np.ndarray]]:
        """The images that are not paired by their files: preimages left alone, pairs, postimages left alone."""
        sides = [list(self._read(self._unpaired, kind)) for kind in (_BEFORE, _AFTER)]
        found = [*sides[0], *sides[1]]
        if not found:
            return []
        rows = ChangedRows(
            [pa.concat_arrays(columns) for columns in zip(*(some.columns for some, _ in found), strict=True)],
            np.concatenate([some.positions for some, _ in found]),
            pa.concat_arrays([some.change_types for some, _ in found]),
        )
        ordinals = np.concatenate([some for _, some in found])
        before = sum(len(some) for some, _ in sides[0])
        partners = _partners([rows.columns[position] for position in self._keys], before)
        paired = np.flatnonzero(partners >= 0)
        pairs = np.empty(2 * len(paired), np.int64)
        pairs[0::2], pairs[1::2] = paired, partners[paired]
        rest = ordinals[paired] - _BEFORE.row_class(is_paired=False)
        is_alone = np.ones(len(ordinals), bool)
        is_alone[pairs] = False
        alone = np.flatnonzero(is_alone)
        # The class of pairs in files comes after the preimages that are left alone.
        first, last = alone[alone < before], alone[alone >= before]
        order = np.concatenate([pairs, last])
        ordinals_of_pairs = np.repeat((PAIRED_BY_KEYS << CLASS_SHIFT) + 2 * rest, 2)
        ordinals_of_pairs[1::2] += 1
        return [
            (_taken(rows, first), ordinals[first]),
            (_taken(rows, order), np.concatenate([ordinals_of_pairs, ordinals[last]])),
        ]


def _taken(rows: ChangedRows, order: np.ndarray) -> ChangedRows:
    indices = pa.array(order)
    return ChangedRows(
        [column.take(indices) for column in rows.columns], rows.positions[order], rows.change_types.take(indices)
    )


def _partners(keys: Sequence[pa.Array], before: int) -> np.ndarray:
    """The position of each preimage's postimage, of the n-th of a key that of its n-th; -1 without one.

    :param keys: the values of preimages and then of postimages, each in the order of their ordinals.
    :param before: how many are preimages.
    """
    codes = _codes(keys[0])
    for column in keys[1:]:
        more = _codes(column)
        codes = _codes(pa.array(codes * (more.max() + 1) + more))
    count = codes.max() + 1
    if any(len(side) and np.bincount(side).max() > 1 for side in (codes[:before], codes[before:])):
        ranks = np.concatenate([_ranks(codes[:before]), _ranks(codes[before:])])
        codes = _codes(pa.array(codes * (ranks.max() + 1) + ranks))
        count = codes.max() + 1
    place = np.full(count, -1, np.int64)
    place[codes[before:]] = np.arange(before, len(codes))
    partners: np.ndarray = place[codes[:before]]
    return partners


def _codes(values: pa.Array) -> np.ndarray:
    """A number for each value, below the number of values: equal ones for equal values, and for nulls."""
    if pa.types.is_floating(values.type):
        values = pc.add(values, 0.0)  # -0.0 equals 0.0
    if pa.types.is_nested(values.type):
        values = pa.array(list(map(repr, values.to_pylist())))
    codes: np.ndarray = values.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)
    return codes


def _ranks(codes: np.ndarray) -> np.ndarray:
    """How many equal codes come before each."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return ranks
